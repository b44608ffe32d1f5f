// The literal text of DeepSeek's V4 and V4.1 prompts: control tokens, effort paragraphs, the prompt
// about tools, the spelling of calls (DSML). Data only.
#pragma once

#include <string_view>

namespace lineshaft::recipe::deepseek {

inline constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kSystem = "<｜System｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
inline constexpr std::string_view kImage = "<｜deepseek_image｜>";

inline constexpr std::string_view kGrounding[] = {
    "<｜ref｜>",   "<｜/ref｜>",   "<｜box｜>",     "<｜/box｜>",
    "<｜point｜>", "<｜/point｜>", "<｜polygon｜>", "<｜/polygon｜>",
};

inline constexpr std::string_view kEffortHighV4 =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to "
    "resolve the root cause, rigorously stress-testing your logic against all potential paths, "
    "edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, "
    "considered alternative, and rejected hypothesis to ensure absolutely no assumption is left "
    "unchecked.\n\n";
inline constexpr std::string_view kEffortMaxV4 =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: "
    "exhaustively decompose the problem into its most fundamental components, trace every causal "
    "chain to its root, and resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles "
    "and are certain that no assumption remains unchecked and no error remains undiscovered.\n\n";

// After "Reasoning Effort: " and the number.
inline constexpr std::string_view kEffortTailV41 =
    " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

// The prompt about tools. Behind each \x01 stands what is filled in: D kDsml, T kThink, /
// kThinkEnd; C, I and P the version's names of a block of calls, a call and a parameter.
inline constexpr std::string_view kToolPrompt =
    "## Tools\n\nYou have access to a set of tools to help answer the user's question. You can "
    "invoke tools by writing a \"<\x01" "D\x01" "C>\" block like the following:\n\n"
    "<\x01" "D\x01" "C>\n"
    "<\x01" "D\x01" "I name=\"$TOOL_NAME\">\n"
    "<\x01" "D\x01" "P name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</\x01" "D\x01" "P>\n...\n"
    "</\x01" "D\x01" "I>\n"
    "<\x01" "D\x01" "I name=\"$TOOL_NAME2\">\n...\n"
    "</\x01" "D\x01" "I>\n"
    "</\x01" "D\x01" "C>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by \x01" "T), you MUST output your complete reasoning "
    "inside \x01" "T...\x01/ BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after \x01/ with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
inline constexpr std::string_view kToolPromptTail =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";
inline constexpr std::string_view kNewTools = "### Updated Tool Schemas\n\n";

inline constexpr std::string_view kJsonObjectV4 =
    "You are a helpful assistant designed to output JSON.\n## Response Format:\n\n"
    "Reply with JSON object ONLY.";
inline constexpr std::string_view kSchema =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

inline constexpr std::string_view kUnsupportedImage = "[Unsupported Image]";

}  // namespace lineshaft::recipe::deepseek
