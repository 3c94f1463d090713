// Each format as an expression that stays on the safe side of its standard.
#include "engine/constraint/formats.h"

#include <array>
#include <utility>
#include <vector>

#include "engine/constraint/constraint.h"

namespace gemmatrace::engine {
namespace {

// Years 1000 to 9999, each month with its days; 29 February in leap years only.
#define GEMMATRACE_DATE                                                                           \
    "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)" \
    "|02-(0[1-9]|1[0-9]|2[0-8]))"                                                                 \
    "|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)"
// RFC 3339, with an offset and without leap seconds.
#define GEMMATRACE_CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
#define GEMMATRACE_TIME GEMMATRACE_CLOCK "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define GEMMATRACE_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
// Labels that begin with a letter, so that no name looks like an address.
#define GEMMATRACE_HOST "[a-z]([a-z0-9-]{0,30}[a-z0-9])?(\\.[a-z]([a-z0-9-]{0,30}[a-z0-9])?){1,4}"
#define GEMMATRACE_URI_LETTER "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})"

using NamedFormat = std::pair<std::string_view, std::string_view>;

constexpr std::array kNamedFormats{
    NamedFormat{"date", GEMMATRACE_DATE},
    NamedFormat{"time", GEMMATRACE_TIME},
    NamedFormat{"date-time", GEMMATRACE_DATE "T" GEMMATRACE_TIME},
    NamedFormat{"duration",
                "P([0-9]{1,4}W|[0-9]{1,4}D|[0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?|[0-9]{1,4}M([0-9]{1,4}D)?"
                "|T([0-9]{1,4}S|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?))"},
    NamedFormat{"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    NamedFormat{"ipv4", GEMMATRACE_OCTET "(\\." GEMMATRACE_OCTET "){3}"},
    NamedFormat{"ipv6",
                "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}|::([0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,5})?"
                "|[0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,2}::[0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,2}"},
    NamedFormat{"hostname", GEMMATRACE_HOST},
    NamedFormat{"email", "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,30})?@" GEMMATRACE_HOST},
    NamedFormat{"uri", "https?://" GEMMATRACE_HOST "(:[1-9][0-9]{1,3})?(/" GEMMATRACE_URI_LETTER
                       "{0,100}){0,4}(\\?" GEMMATRACE_URI_LETTER "{0,100})?(#" GEMMATRACE_URI_LETTER "{0,50})?"},
};

#undef GEMMATRACE_DATE
#undef GEMMATRACE_CLOCK
#undef GEMMATRACE_TIME
#undef GEMMATRACE_OCTET
#undef GEMMATRACE_HOST
#undef GEMMATRACE_URI_LETTER

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
    for (const auto& [name, pattern] : kNamedFormats) {
        if (name == format) return pattern;
    }
    return std::nullopt;
}

std::vector<std::string_view> format_names() {
    std::vector<std::string_view> names;
    for (const auto& [name, pattern] : kNamedFormats) names.push_back(name);
    return names;
}

}  // namespace gemmatrace::engine
