// At stake: a template that is read differently than its maker meant gives wrong prompts; a user's
// text that passes for scaffolding forges turns; a hostile template must not hang or eat memory.
#include "recipe/template/template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "base/json.h"
#include "base/rng.h"

namespace lineshaft::recipe::jinja {
namespace {

StatusOr<OriginText> render(std::string_view text, const Json& variables,
                            const RenderLimits& limits = {}) {
  LS_ASSIGN_OR_RETURN(const auto parsed, Template::parse(text));
  Variables out;
  for (const auto& [key, value] : variables.items()) {
    out.emplace_back(key, value_from_json(value, Origin::kUser));
  }
  return parsed->render(out, 1722000000, limits);
}

// The text with a user's stretches in brackets.
std::string marked(const OriginText& text) {
  std::string out;
  text.each_run([&](std::string_view run, Origin origin) {
    out += origin == Origin::kUser ? fmt::format("[{}]", run) : std::string(run);
  });
  return out;
}

std::string marked(std::string_view text, const Json& variables) {
  const auto out = render(text, variables);
  return out.ok() ? marked(*out) : std::string(message_of(out.status()));
}

TEST(Template, renders_small_templates_as_jinja2_does) {
  std::ifstream lines("tests/golden/recipe/templates/language.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    const Json item = *parse_json(line);
    const std::string text = item["template"].get<std::string>();
    const auto out = render(text, item["vars"]);
    EXPECT_EQ(out.ok(), item.contains("out")) << text << out.status();
    if (out.ok() && item.contains("out")) {
      EXPECT_EQ(out->text(), item["out"].get<std::string>()) << text;
    }
  }
  EXPECT_GE(compared, 220);
}

TEST(Template, every_operation_keeps_who_wrote_what) {
  const Json vars = {{"u", "x<e>y"}, {"w", " ab "}, {"l", {"p", "q"}}, {"n", 7},
                     {"d", {{"k", "v"}}}};
  EXPECT_EQ(marked("<{{ u }}>", vars), "<[x<e>y]>");
  EXPECT_EQ(marked("{{ '<' + u + '>' }}", vars), "<[x<e>y]>");
  EXPECT_EQ(marked("{{ '<' ~ u ~ n ~ '>' }}", vars), "<[x<e>y7]>");
  EXPECT_EQ(marked("{{ u[1:4] }}", vars), "[<e>]");
  EXPECT_EQ(marked("{{ ('A' + u)[:3] }}{{ ('A' + w)[::-1] }}", vars), "A[x< ba ]A");
  EXPECT_EQ(marked("{{ w | trim }}|{{ w.strip() }}|{{ w | upper }}", vars), "[ab]|[ab]|[ AB ]");
  EXPECT_EQ(marked("{{ l | join('-') }}", vars), "[p]-[q]");
  EXPECT_EQ(marked("{{ d | tojson }}", vars), "{\"[k]\": \"[v]\"}");
  EXPECT_EQ(marked("{{ d }}{{ l }}", vars), "{'[k]': '[v]'}['[p]', '[q]']");
  EXPECT_EQ(marked("{{ u.split('<') | last }}", vars), "[e>y]");
  EXPECT_EQ(marked("{{ '<s>' | replace('s', u) }}", vars), "<[x<e>y]>");
  EXPECT_EQ(marked("{{ u | replace('x', '<s>') }}", vars), "<s>[<e>y]");
  EXPECT_EQ(marked("{% set x %}<{{ u }}{% endset %}{{ x }}", vars), "<[x<e>y]");
  EXPECT_EQ(marked("{% filter upper %}a{{ w }}{% endfilter %}", vars), "A[ AB ]");
  EXPECT_EQ(marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}", vars), "<[x<e>y]>");
  EXPECT_EQ(marked("{% for c in w %}.{{ c }}{% endfor %}", vars), ".[ ].[a].[b].[ ]");
  EXPECT_EQ(marked("{{ n + 1 }}{{ n | string }}{{ 1 + 1 }}", vars), "[87]2");
  EXPECT_EQ(marked("{{ u | default('x') }}{{ none_such | default('x') }}", vars), "[x<e>y]x");
  EXPECT_EQ(marked("{{ [u, 's'] | map('upper') | join }}", vars), "[X<E>Y]S");
  EXPECT_EQ(marked("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", vars), "[k]=[v]");
}

constexpr std::string_view kMark = "\xee\x80\x80";  // U+E000, which no template spells

// The document with a mark behind every string and key.
Json with_marks(const Json& json) {
  if (json.is_string()) return json.get<std::string>() + std::string(kMark);
  Json out = json;
  if (json.is_array()) {
    for (Json& item : out) item = with_marks(item);
  }
  if (json.is_object()) {
    out = Json::object();
    for (const auto& [key, value] : json.items()) {
      out[key + std::string(kMark)] = with_marks(value);
      out[key] = with_marks(value);
    }
  }
  return out;
}

// No mark is in scaffolding, whole or in part.
void expect_marks_are_users(const OriginText& text, const std::string& source) {
  text.each_run([&](std::string_view run, Origin origin) {
    if (origin == Origin::kUser) return;
    EXPECT_EQ(run.find(kMark.substr(0, 2)), std::string_view::npos) << source;
    EXPECT_EQ(run.find("\\ue000"), std::string_view::npos) << source;
  });
}

class Dice {
 public:
  uint64_t below(uint64_t count) { return key_.below(draws_++, count); }

 private:
  RngKey key_{7};
  uint64_t draws_ = 0;
};

// One to four cuts, copies or changed bytes.
std::string mutated(std::string text, Dice& dice) {
  static constexpr std::string_view kBytes = "{}%#-+ \n'\"()[]|.,:~=*/<>0a_";
  for (uint64_t left = 1 + dice.below(4); left > 0 && !text.empty(); --left) {
    const size_t at = dice.below(text.size());
    const size_t size = std::min<size_t>(1 + dice.below(6), text.size() - at);
    const uint64_t kind = dice.below(3);
    if (kind == 0) text.erase(at, size);
    if (kind == 1) text.insert(dice.below(text.size()), text.substr(at, size));
    if (kind == 2) text[at] = kBytes[dice.below(kBytes.size())];
  }
  return text;
}

TEST(Template, users_text_stays_theirs_in_templates_of_every_kind) {
  std::ifstream lines("tests/golden/recipe/templates/language.jsonl");
  Dice dice;
  int rendered = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json item = *parse_json(line);
    Json vars = item["vars"];
    for (auto& value : vars) value = with_marks(value);
    const std::string source = item["template"].get<std::string>();
    for (int round = 0; round < 60; ++round) {
      const std::string text = round == 0 ? source : mutated(source, dice);
      const auto out = render(text, vars, {.steps = 200'000, .bytes = 1 << 20});
      if (!out.ok()) continue;
      ++rendered;
      expect_marks_are_users(*out, text);
    }
  }
  EXPECT_GE(rendered, 2000);
}

TEST(Template, errors_name_line_and_column) {
  const auto message = [](std::string_view text) { return marked(text, Json::object()); };
  EXPECT_EQ(message("a\nb {{ 1 + }}"), "line 2, column 10: expected an expression, found '}}'");
  EXPECT_EQ(message("é{{ x.y }}"), "line 1, column 6: 'x' is undefined");
  EXPECT_EQ(message("{% if true %}\n"), "line 1, column 14: a block without its 'endif'");
  EXPECT_EQ(message("{{ 1 | rot13 }}"), "line 1, column 8: the filter 'rot13' is not supported");
  EXPECT_EQ(message("{% include 'x' %}"),
            "line 1, column 4: the statement 'include' is not supported");
  EXPECT_EQ(message("\n\n  {{ raise_exception('no system turn') }}"),
            "line 3, column 21: no system turn");
  EXPECT_EQ(message("{{ {\\\"a\\\": 1} }}"), "line 1, column 5: unexpected character '\\'");
}

TEST(Template, hostile_templates_end_soon_with_an_error) {
  const std::string deep(100'000, '(');
  const std::string chain = [] {
    std::string out = "{{ 1";
    for (int i = 0; i < 20'000; ++i) out += " + 1";
    return out + " }}";
  }();
  const std::string nest = [] {
    std::string out;
    for (int i = 0; i < 5'000; ++i) out += "{% if true %}";
    return out;
  }();
  const std::vector<std::string> hostile = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
      "{{ 'a' * 9999999999 }}",
      "{{ [1] * 9999999999 }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x | tojson }}",
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(30) %}"
      "{% set ns.x = ns.x | replace('a', 'aa') | replace('b', ns.x) %}{% endfor %}{{ ns.x }}",
      "{% for i in range(99999) %}{{ 'x' * 999999 }}{% endfor %}",
      "{{ 2 ** 99999999999 }}",
      "{{ '" + std::string(100'000, 'x') + "' | indent(1000) | list | join('" +
          std::string(1000, 'y') + "') | list | join('" + std::string(1000, 'y') + "') }}",
      "{{ " + deep,
      "{{ " + std::string(50'000, '-') + "1 }}",
      "{% if " + std::string(1, ' ') + std::string(30'000, '[') + " %}",
      chain,
      nest,
      "{{ x" + std::string(20'000, '.') + " }}",
  };
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& text : hostile) {
    EXPECT_FALSE(render(text, Json::object()).ok()) << text.substr(0, 100);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 60.0);
}

TEST(Template, a_namespace_that_holds_itself_is_no_harm) {
  EXPECT_EQ(marked("{% set a = namespace() %}{% set a.a = a %}{{ a == a.a }}", Json::object()),
            "True");
}

TEST(Template, a_rendering_of_a_long_dialogue_fits_the_budget) {
  Json messages = Json::array();
  for (int i = 0; i < 20'000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", " word and another word "}});
  }
  messages.push_back({{"role", "user"}, {"content", std::string(10'000'000, 'x')}});
  const auto out = render(
      "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}"
      "{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + "
      "m['content'] | trim + '<|im_end|>' + '\n' }}{% endfor %}",
      {{"messages", messages}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GT(out->size(), 10'000'000u);
}

}  // namespace
}  // namespace lineshaft::recipe::jinja
