// What the verifier demands of the types of one operation, once its counts and attributes are in order.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln::ir::detail {

// Appends a sentence for each rule that does not hold.
void check_counts(const Op& op, std::vector<std::string>& problems);
void check_attributes(const Op& op, std::vector<std::string>& problems);
void check_types(const Op& op, std::vector<std::string>& problems);

} // namespace kiln::ir::detail
