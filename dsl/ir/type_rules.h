// Declares the checks of a single operation that the verifier makes: counts, attributes and types.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln::ir::detail {

// Each function appends a sentence for each rule that is violated. check_types may only be called if the
// other two found nothing.
void check_counts(const Op& op, std::vector<std::string>& problems);
void check_attributes(const Op& op, std::vector<std::string>& problems);
void check_types(const Op& op, std::vector<std::string>& problems);

} // namespace kiln::ir::detail
