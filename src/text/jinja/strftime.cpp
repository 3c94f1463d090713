// Dates as text: Python hands all but a few directives to the C library, and so do we.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

#include "text/jinja/globals.h"

namespace gemmatrace::text::jinja {

namespace {

std::tm broken_down(const LocalTime& time) {
    const std::chrono::year_month_day date{std::chrono::year(time.year),
                                           std::chrono::month(static_cast<unsigned>(time.month)),
                                           std::chrono::day(static_cast<unsigned>(time.day))};
    const std::chrono::sys_days days = date;
    const std::chrono::sys_days new_year = date.year() / std::chrono::January / 1;
    std::tm parts{};
    parts.tm_year = time.year - 1900;
    parts.tm_mon = time.month - 1;
    parts.tm_mday = time.day;
    parts.tm_hour = time.hour;
    parts.tm_min = time.minute;
    parts.tm_sec = time.second;
    parts.tm_wday = static_cast<int>(std::chrono::weekday(days).c_encoding());
    parts.tm_yday = static_cast<int>((days - new_year).count());
    parts.tm_isdst = -1;
    return parts;
}

// What Python fills in itself: microseconds, and the zone that a time without one does not have.
std::string with_own_directives(const LocalTime& time, const std::string& format) {
    std::string rest;
    for (size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%' || at + 1 >= format.size()) {
            rest += format[at];
            continue;
        }
        const char directive = format[++at];
        if (directive == 'f') {
            rest += fmt::format("{:06}", time.microsecond);
        } else if (directive != 'z' && directive != 'Z') {
            rest += '%';
            rest += directive;
        }
    }
    return rest;
}

}  // namespace

std::string format_time(const LocalTime& time, const std::string& format) {
    const std::tm parts = broken_down(time);
    const std::string directives = with_own_directives(time, format) + '|';  // never empty: 0 then means too small
    std::string text(directives.size() * 4 + 64, '\0');
    constexpr size_t kMost = size_t{1} << 24;
    while (text.size() < kMost) {
        const size_t size = std::strftime(text.data(), text.size(), directives.c_str(), &parts);
        if (size > 0) {
            text.resize(size - 1);
            return text;
        }
        text.resize(text.size() * 2);
    }
    fail("the format of strftime_now makes too long a text");
}

}  // namespace gemmatrace::text::jinja
