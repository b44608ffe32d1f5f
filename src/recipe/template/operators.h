// Operators of expressions, as Python's: + - * / // % ** ~ and comparisons. Origins kept.
#pragma once

#include "base/status.h"
#include "recipe/template/ast.h"
#include "recipe/template/value.h"

namespace lineshaft::recipe::jinja {

// kInvalidArgument with Python's sentence for types that don't go together.
StatusOr<Value> binary(Op op, const Value& left, const Value& right, Budget& budget);
StatusOr<bool> compare(Op op, const Value& left, const Value& right, Budget& budget);
StatusOr<Value> negative(const Value& value);

// value[start:stop:step]; null or none where left out. Of lists and texts (by code points).
StatusOr<Value> slice(const Value& value, const Value* start, const Value* stop, const Value* step,
                      Budget& budget);

}  // namespace lineshaft::recipe::jinja
