#pragma once
// Numbers in a sentence, such as those of the ranks that it is about.
#include <span>
#include <string>

namespace busbw {

/// "3", "3 and 5", "3, 5, 8 and 61 more".
std::string number_list_text(std::span<const int> numbers);

}  // namespace busbw
