// SchemaCompiler: the work behind compile_schema, one pass over a document. Not used elsewhere.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decoding/constraint/schema.h"

namespace lineshaft::decoding {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const SchemaLimits& limits) : root_(root), limits_(limits) {}

  CompiledSchema run();

 private:
  // Where a schema stands in the document.
  struct Site {
    const Json* schema = nullptr;
    std::string pointer;   // "" is the root
    std::string resource;  // pointer of the nearest schema with an id
  };
  // Which members or items a keyword has evaluated, for unevaluatedProperties and -Items.
  struct Evaluated {
    ExprId condition = ExprPool::kTrue;
    ExprId keys = ExprPool::kFalse;  // objects
    int64_t items = 0;               // arrays: the first so many; kNoEnd: all
    ExprId fitting = ExprPool::kFalse;  // arrays: items that fit this
  };

  ExprId fail(const Site& site, std::string keyword, std::string reason);
  bool failed() const { return !refusal_.reason.empty(); }

  void collect(const Json& node, const std::string& pointer, const std::string& resource,
               const std::string& base, int depth);
  void choose_draft();
  ExprId compile(const Site& site);
  ExprId keywords(const Site& site);
  Site child(const Site& site, const std::string& keyword) const;
  Site child(const Site& site, const std::string& keyword, const std::string& key) const;
  const Json* find(const Site& site, const char* keyword) const;
  // The formula for values of that type, true for the others.
  ExprId only(JsonType type, ExprId formula);

  ExprId type_keyword(const Site& site, const Json& value);
  ExprId one_type(const std::string& name);
  ExprId string_keywords(const Site& site);
  ExprId format_keyword(const Site& site, const std::string& name);
  ExprId regex(const Site& site, const std::string& keyword, const std::string& text);
  ExprId automaton(std::shared_ptr<const Nfa> nfa);
  ExprId number_keywords(const Site& site);
  bool decimal(const Site& site, const char* keyword, const Json& value, Decimal* out);
  ExprId object_keywords(const Site& site);
  ExprId member_keywords(const Site& site);
  ExprId dependency_keywords(const Site& site);
  ExprId required_list(const Site& site, const std::string& keyword, const Json& names);
  ExprId array_keywords(const Site& site);
  ExprId item_keywords(const Site& site, int64_t* prefix, bool* all);
  ExprId logic_keywords(const Site& site);
  bool schema_list(const Site& site, const char* keyword, std::vector<ExprId>* out);
  bool count(const Site& site, const char* keyword, int64_t* out);

  ExprId reference(const Site& site, const std::string& ref);
  bool resolve(const Site& site, const std::string& ref, Site* out) const;
  bool by_pointer(const std::string& resource, const std::string& pointer, Site* out) const;
  bool in_place_cycle(ExprId id, std::map<ExprId, int>& state) const;

  ExprId unevaluated(const Site& site);
  void evaluated_by(const Site& site, ExprId condition, int depth, std::vector<Evaluated>& out);
  void evaluated_here(const Site& site, ExprId condition, std::vector<Evaluated>& out);
  ExprId keys_of(const Site& site);

  const Json& root_;
  const SchemaLimits& limits_;
  ExprPool pool_;
  std::vector<std::shared_ptr<const Nfa>> patterns_;
  std::map<const Nfa*, int32_t> pattern_index_;
  std::map<std::string, ExprId> regexes_;
  size_t pattern_nodes_ = 0;
  int draft_ = 2020;                          // 4, 6, 7, 2019, 2020
  std::map<std::string, Site> by_uri_;        // ids and anchors, absolute or as written
  std::map<std::string, std::string> bases_;  // base URI of each resource
  std::map<std::string, std::string> resources_;  // resource of each schema with an own one
  std::map<std::string, int32_t> references_;  // pointer of a target → schema number
  std::vector<Site> waiting_;                  // targets that were not compiled yet
  int depth_ = 0;
  Refusal refusal_;
  std::vector<std::string> warnings_;
};

}  // namespace lineshaft::decoding
