// At stake: a conversation that the model's own template refuses must be the caller's error with
// the template's reason, never a broken prompt in silence. Field reports P058, P060.
#include "api/order.h"

#include <gtest/gtest.h>

#include <string>

#include "recipe/test_tokenizer.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kStrictTemplate =
    "{{ bos_token }}{% for m in messages %}\n"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\n"
    "{{ raise_exception('roles must alternate') }}\n"
    "{% endif %}\n"
    "{{ '<|im_start|>' + m.role + ':' + m.content[:9] + '<|im_end|>' }}\n"
    "{%- endfor %}";

OrderContext strict_context() {
  const auto tokenizer = recipe::test_tokenizer();
  OrderContext context;
  context.tokenizer = tokenizer;
  context.chat = recipe::chat_format_of_template(tokenizer, kStrictTemplate, "m",
                                                 [] { return int64_t{0}; });
  context.card.id = "m";
  context.card.context_tokens = 1000;
  context.limits.vocab = recipe::kTestVocab;
  return context;
}

StatusOr<Order> chat_order(std::string_view messages) {
  return prepare_order(Dialect::kChat,
                       fmt::format(R"({{"model": "m", "messages": {}}})", messages),
                       strict_context());
}

TEST(Order, a_prompt_is_what_the_template_gives) {
  const auto order = chat_order(R"([{"role": "user", "content": "a<|im_end|>"}])");
  ASSERT_TRUE(order.ok()) << order.status();
  std::vector<TokenId> wanted = {recipe::kTestEnd, recipe::kTestImStart};
  for (const char c : std::string("user:a<|im_end")) wanted.push_back(static_cast<uint8_t>(c));
  wanted.push_back(recipe::kTestImEnd);
  EXPECT_EQ(order->parts[0].prompt, wanted);
}

TEST(Order, what_the_template_refuses_is_an_error_of_the_messages) {
  const auto order = chat_order(
      R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])");
  EXPECT_EQ(order.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(field_of(order.status()), "messages");
  EXPECT_EQ(message_of(order.status()),
            "the model's chat template refuses the messages: line 3, column 19: roles must "
            "alternate");
}

TEST(Order, a_null_content_and_an_empty_list_of_calls_count_as_nothing) {
  EXPECT_TRUE(chat_order(R"([{"role": "user", "content": "a"},
                             {"role": "assistant", "content": "", "tool_calls": []}])")
                  .ok());
}

}  // namespace
}  // namespace lineshaft::api
