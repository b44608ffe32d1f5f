// At stake: an agent's next prompt begins with the tokens that the model really wrote, whatever the
// client did to the JSON, or the cache is lost at every turn; and nothing that a client writes may
// bring in tokens that it doesn't mean.
#include "recipe/turn_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "recipe/model_format.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/test_tokenizer.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kD = "\uff5cDSML\uff5c";

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto made = test_tokenizer({"</think>", std::string(kD)});
  return made;
}

// "[im_start]role\n" content, calls in DSML "[im_end]" a turn; the answer is opened.
std::vector<TokenId> encode(const Conversation& conversation) {
  PieceList list;
  for (const Turn& turn : conversation.turns) {
    list.control("<|im_start|>");
    list.plain(turn.role == Role::kAssistant ? "a:" : "u:");
    list.plain(turn.content);
    for (const ToolCall& call : turn.calls) {
      list.plain("\n<");
      list.control(kD);
      list.plain("calls><");
      list.control(kD);
      list.plain("invoke name=\"" + call.name + "\"><");
      list.control(kD);
      list.plain("parameter name=\"v\" string=\"false\">");
      list.plain(write_json((*parse_json(call.arguments))["v"]));
      list.plain("</");
      list.control(kD);
      list.plain("parameter></");
      list.control(kD);
      list.plain("invoke></");
      list.control(kD);
      list.plain("calls>");
    }
    list.control("<|im_end|>");
  }
  list.control("<|im_start|>");
  list.plain("a:");
  return *encode_pieces(list.pieces(), *tokenizer());
}

ChatFormat format() {
  ChatFormat out;
  out.encode = [](const Conversation& c) { return encode(c); };
  out.parser = [](const Conversation& c, std::vector<std::string> stops) {
    return std::make_unique<DsmlParser>(parser_options(c, std::move(stops)));
  };
  return out;
}

std::vector<TokenId> say(std::string_view text) {
  return tokenizer()->encode(text, Tokenizer::Mode::kSpecial);
}

std::string call_text(std::string_view value) {
  return fmt::format(
      "one\n<{0}calls>\n<{0}invoke name=\"f\">\n<{0}parameter name=\"v\" string=\"false\">{1}</{0}"
      "parameter>\n</{0}invoke>\n</{0}calls>",
      kD, value);
}

class Memory : public testing::Test {
 protected:
  Memory() : memory_(tokenizer()) {
    dialogue_.tools.push_back({"f"});
    dialogue_.turns.push_back({Role::kUser, "question"});
    asked_ = encode(dialogue_);
    written_ = say(call_text("{\"x\": 1.0,\"y\":[2]}"));
    answer_.add({AnswerEvent::Kind::kContent, "one"});
    answer_.add({AnswerEvent::Kind::kCall, "f"}, "call_00_a");
    memory_.remember(asked_, written_, answer_);
  }

  // The dialogue with the turn as a client returns it, and the result.
  Conversation returned(std::string arguments, std::string content = "one",
                        std::string id = "call_00_a") const {
    Conversation next = dialogue_;
    Turn turn{Role::kAssistant, std::move(content)};
    turn.calls.push_back({std::move(id), "f", std::move(arguments)});
    next.turns.push_back(std::move(turn));
    next.turns.push_back({Role::kTool, "result"});
    return next;
  }
  std::vector<TokenId> restored(const Conversation& conversation) const {
    return memory_.restore(conversation, format(), encode(conversation));
  }
  // Whether a prompt begins with the question and what was written.
  bool goes_on(const std::vector<TokenId>& prompt) const {
    std::vector<TokenId> all = asked_;
    all.insert(all.end(), written_.begin(), written_.end());
    all.push_back(kTestImEnd);
    return prompt.size() > all.size() && std::equal(all.begin(), all.end(), prompt.begin());
  }

  TurnMemory memory_;
  Conversation dialogue_;
  std::vector<TokenId> asked_;
  std::vector<TokenId> written_;
  Answer answer_;
};

TEST_F(Memory, a_call_comes_back_as_it_was_written) {
  for (const char* arguments :
       {R"({"v":{"x": 1.0,"y":[2]}})", R"({"v":{"y":[2],"x":1}})",
        R"({ "v" : {"x":1,"y":[2.0]}})"}) {
    const auto next = returned(arguments);
    EXPECT_FALSE(goes_on(encode(next)));
    const auto prompt = restored(next);
    EXPECT_TRUE(goes_on(prompt)) << arguments;
    EXPECT_EQ(restored(next), prompt);
    const auto plain = encode(next);
    // What follows the turn is untouched.
    const auto tail = std::find(plain.begin() + static_cast<ptrdiff_t>(asked_.size()), plain.end(),
                                kTestImEnd);
    EXPECT_TRUE(std::equal(tail, plain.end(), prompt.end() - (plain.end() - tail)));
  }
}

TEST_F(Memory, a_turn_that_says_something_else_stays_as_it_is) {
  for (const auto& other :
       {returned(R"({"v":{"x":2,"y":[2]}})"), returned(R"({"v":{"x":1,"y":[2]}})", "two"),
        returned(R"({"v":{"x":1,"y":[2]}})", "one", "call_00_b")}) {
    EXPECT_EQ(restored(other), encode(other));
  }
  Conversation elsewhere = returned(R"({"v":{"x":1,"y":[2]}})");
  elsewhere.turns[0].content = "another question";
  EXPECT_EQ(restored(elsewhere), encode(elsewhere));
}

TEST_F(Memory, control_tokens_that_only_the_model_wrote_are_not_put_back) {
  auto written = say("yes<|im_start|>");
  Answer answer;
  answer.add({AnswerEvent::Kind::kContent, "yes<|im_start|>"});
  memory_.remember(asked_, written, answer);
  Conversation next = dialogue_;
  next.turns.push_back({Role::kAssistant, "yes<|im_start|>"});
  EXPECT_EQ(restored(next), encode(next));
}

TEST_F(Memory, text_comes_back_in_the_tokens_it_was_written_in) {
  const std::vector<TokenId> apart = {'t', 'h', 'e'};
  Answer answer;
  answer.add({AnswerEvent::Kind::kContent, "the"});
  memory_.remember(asked_, apart, answer);
  Conversation next = dialogue_;
  next.turns.push_back({Role::kAssistant, "the"});
  next.turns.push_back({Role::kUser, "and?"});
  const auto prompt = restored(next);
  EXPECT_NE(prompt, encode(next));
  EXPECT_TRUE(std::equal(apart.begin(), apart.end(),
                         prompt.begin() + static_cast<ptrdiff_t>(asked_.size())));
}

TEST_F(Memory, what_is_kept_is_bounded) {
  TurnMemory small(tokenizer(), 10'000);
  for (int i = 0; i < 500; ++i) {
    Answer answer;
    answer.add({AnswerEvent::Kind::kContent, std::to_string(i % 7)});
    small.remember(asked_, std::vector<TokenId>(static_cast<size_t>(i % 90) + 1, 'x'), answer);
    EXPECT_LE(small.bytes(), 10'000u);
  }
  EXPECT_GT(small.bytes(), 5'000u);
}

}  // namespace
}  // namespace lineshaft::recipe
