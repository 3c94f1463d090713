// Errors as people read them.
#include "cli/report.h"

#include <fmt/format.h>

#include <new>

#include "cli/output.h"

namespace gemmatrace::cli {

int report_error(const Error& error) {
    std::string text = fmt::format("error: {}\n", error.message());
    if (error.code() != ErrorCode::interrupted) text += fmt::format("  code: {}\n", error_code_name(error.code()));
    for (const auto& [key, value] : error.context()) text += fmt::format("  {}: {}\n", key, value);
    if (!error.remedy().empty()) text += fmt::format("  remedy: {}\n", error.remedy());
    write_error(text);
    return exit_status(error.code());
}

int report_current_exception() {
    try {
        throw;
    } catch (const Error& error) {
        return report_error(error);
    } catch (const std::bad_alloc&) {
        return report_error(Error(ErrorCode::resource, "not enough memory", {},
                                  "close other programs, use a smaller checkpoint or a shorter context"));
    } catch (const std::exception& error) {
        return report_error(Error(ErrorCode::internal, fmt::format("an unexpected failure: {}", error.what()), {},
                                  "please report this with the command that led to it"));
    }
}

}  // namespace gemmatrace::cli
