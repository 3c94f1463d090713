// The table of options.
#include "neuron/compiler_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"

namespace gemmatrace::neuron {
namespace {

struct FlagRow {
    std::string_view target;
    Version since;  // the first compiler that is given it
    std::string_view flag;
};

// Norms, softmax and the caps are fp32 in the program and stay so: no casts. Masks are finite, so nothing is saturated.
constexpr std::array kFlags = {
    FlagRow{"inf2", {0, 0, 0}, "--framework=XLA"},
    FlagRow{"inf2", {0, 0, 0}, "--target=inf2"},
    FlagRow{"inf2", {0, 0, 0}, "--model-type=transformer"},
    FlagRow{"inf2", {0, 0, 0}, "--auto-cast=none"},  // the default only since 2.22
    FlagRow{"inf2", {0, 0, 0}, "-O1"},
    FlagRow{"inf2", {0, 0, 0}, "--enable-mixed-precision-accumulation"},  // the default only since 2.22
    FlagRow{"inf2", {2, 27, 0}, "--implicit-integer-downcast=all"},       // its default is announced to change
};

// What two words of one option share.
std::string_view option_of(std::string_view word) {
    constexpr std::string_view kEnable = "--enable-";
    constexpr std::string_view kDisable = "--disable-";
    if (word.starts_with("-O")) return "-O";
    if (word.starts_with("--optlevel")) return "-O";
    word = word.substr(0, word.find('='));
    if (word.starts_with(kEnable)) return word.substr(kEnable.size());
    if (word.starts_with(kDisable)) return word.substr(kDisable.size());
    return word;
}

void check_extra(std::string_view word) {
    constexpr std::array<std::string_view, 5> kOurs = {"--output", "--framework", "--target", "--logfile", "--help"};
    const bool is_option = word.size() > 1 && word.starts_with('-');
    if (is_option && std::ranges::find(kOurs, word.substr(0, word.find('='))) == kOurs.end()) return;
    throw Error(ErrorCode::bad_request, fmt::format("\"{}\" cannot be handed to the compiler", printable(word)),
                {{"field", "--compiler-flag"}},
                "write an option of the compiler as one word, e.g. --compiler-flag=--optlevel=2; files and target are "
                "named by this program");
}

}  // namespace

std::vector<std::string> compiler_flags(std::string_view target, const Version& compiler,
                                        const std::vector<std::string>& extra) {
    std::vector<std::string> flags;
    for (const FlagRow& row : kFlags) {
        if (row.target == target && row.since <= compiler) flags.emplace_back(row.flag);
    }
    if (flags.empty()) {
        throw Error(ErrorCode::unsupported, fmt::format("no compiler options are known for \"{}\"", printable(target)),
                    {{"field", "--target"}}, "use inf2");
    }
    for (const std::string& word : extra) {
        check_extra(word);
        const auto same = std::ranges::find(flags, option_of(word), [](const auto& flag) { return option_of(flag); });
        if (same == flags.end())
            flags.push_back(word);
        else
            *same = word;
    }
    return flags;
}

}  // namespace gemmatrace::neuron
