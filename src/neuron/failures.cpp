// The table of the compiler's codes. Sources: AWS's list of error codes and its repository's reports, as collected in
// the project's notes on neuronx-cc.
#include "neuron/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <csignal>

#include "base/printable.h"

namespace gemmatrace::neuron {
namespace {

constexpr std::string_view kReport = "report this with the log; another version of the compiler may take the program";

const std::vector<KnownFailure>& failure_table() {
    static const std::vector<KnownFailure> table = {
        {{"EARG001"},
         ErrorCode::unsupported,
         "it does not take this --logical-nc-config",
         "leave --lnc out: this accelerator has one core for one core"},
        {{"EARG002"},
         ErrorCode::unsupported,
         "it does not know one of its options",
         "take away what --compiler-flag added, or use a compiler of the list that `gemmatrace compile --dry-run` "
         "prints"},
        {{"EVRF001", "EUOC002"}, ErrorCode::internal, "it does not have an operation of the program", kReport},
        {{"EVRF004", "EVRF005", "EVRF051", "ESPP004"},
         ErrorCode::internal,
         "it does not have an element type of the program",
         "use --precision bf16; otherwise report this with the log"},
        {{"EVRF007", "EBVF030", "EXTP004", "XTP002", "LUR015"},
         ErrorCode::unsupported,
         "the program has too many instructions once it is laid out in tiles",
         "use a smaller --context, --chunk or --batch, or more ranks with --tp"},
        {{"EVRF009", "EOOM001", "EOOM002", "EXSP001", "XCG815"},
         ErrorCode::resource,
         "the program needs more than the 16 GiB of a core",
         "use more ranks with --tp, or a smaller --batch or --context; `gemmatrace compile --plan` shows the memory"},
        {{"EVRF013"}, ErrorCode::internal, "a top-k of whole numbers is not supported", kReport},
        {{"EVRF015", "EHCA005"}, ErrorCode::internal, "it does not know a custom call of the program", kReport},
        {{"EVRF016", "EVRF060"}, ErrorCode::internal, "a scatter that sums whole numbers is not supported", kReport},
        {{"EVRF022", "EVRF035", "ESFH002"},
         ErrorCode::internal,
         "whole numbers of this width are not supported",
         kReport},
        {{"EVRF031", "EVRF056", "ESMP002"},
         ErrorCode::internal,
         "a constant index lies outside of its tensor",
         kReport},
        {{"EVRF059", "EVRF065"},
         ErrorCode::mismatch,
         "a kernel in the program is of another release",
         "use the packages of one SDK"},
        {{"EVRF061"}, ErrorCode::internal, "a sum of whole numbers over ranks would be done in fp32", kReport},
        {{"EVRF064"}, ErrorCode::internal, "a shape of the program contradicts its operands", kReport},
        {{"EMOD025"}, ErrorCode::internal, "the program has a shape that is not fixed", kReport},
        {{"INLA001", "NLA001"},
         ErrorCode::unsupported,
         "a tile needs more than the 196,608 bytes that a partition of the core's memory has",
         "use a smaller --context, --chunk or --batch, or more ranks with --tp"},
        {{"IBIR229"},
         ErrorCode::unsupported,
         "a tile finds no place in the core's memory",
         "use a smaller --context, --chunk or --batch, or --compiler-flag=-O1"},
        {{"IXCG856"},
         ErrorCode::unsupported,
         "a top-k has fewer than eight elements in a partition",
         "use another number of ranks with --tp"},
        {{"ISMP902"},
         ErrorCode::mismatch,
         "its islpy is not the version that it was built for",
         "install the islpy that goes with this compiler (`gemmatrace compile --dry-run` names it) beside it"},
        {{"IXGM002", "ILLC059", "TEN404"}, ErrorCode::device, "it failed inside", kReport},
    };
    return table;
}

bool is_code(std::string_view word) {
    // A few letters, then three digits.
    const size_t letters =
        static_cast<size_t>(std::ranges::find_if_not(word, [](char c) { return c >= 'A' && c <= 'Z'; }) - word.begin());
    const std::string_view digits = word.substr(letters);
    return letters >= 2 && letters <= 5 && digits.size() == 3 &&
           std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

const KnownFailure* failure_of(std::string_view code) {
    const auto& table = failure_table();
    const auto found = std::ranges::find_if(table, [&](const KnownFailure& failure) {
        return std::ranges::find(failure.codes, code) != failure.codes.end();
    });
    return found == table.end() ? nullptr : &*found;
}

// Calls take(code) for each "NCC_CODE" of a log, and for each "[CODE]" that the table has.
template <typename Take>
void each_code(std::string_view log, const Take& take) {
    constexpr std::string_view kPrefix = "NCC_";
    for (size_t at = 0; at < log.size(); ++at) {
        const bool has_prefix = log.substr(at, kPrefix.size()) == kPrefix;
        if (!has_prefix && log[at] != '[') continue;
        const size_t begin = at + (has_prefix ? kPrefix.size() : 1);
        size_t end = begin;
        while (end < log.size() && std::isalnum(static_cast<unsigned char>(log[end])) != 0) ++end;
        const std::string_view word = log.substr(begin, end - begin);
        if (is_code(word) && (has_prefix || failure_of(word) != nullptr)) take(word);
    }
}

std::string signal_text(int signal) {
    return signal == SIGKILL ? "killed (signal 9)" : fmt::format("ended by signal {}", signal);
}

}  // namespace

std::span<const KnownFailure> known_failures() { return failure_table(); }

std::string failure_code_in(std::string_view log) {
    std::string known;
    std::string other;
    each_code(log, [&](std::string_view code) { (failure_of(code) != nullptr ? known : other) = code; });
    return known.empty() ? other : known;
}

bool may_pass_when_repeated(const CompilerExit& end, std::string_view log) {
    constexpr int kInternalError = 70;
    return end.signal == 0 && end.status == kInternalError && failure_code_in(log).empty();
}

Error compiler_error(const std::string& program, const CompilerExit& end, std::string_view log,
                     const std::string& log_file) {
    Error::Context context = {{"program", program}};
    const std::string code = failure_code_in(log);
    if (!code.empty()) context.emplace_back("compiler_code", "NCC_" + code);
    if (end.signal != 0)
        context.emplace_back("signal", std::to_string(end.signal));
    else
        context.emplace_back("compiler_exit_status", std::to_string(end.status));
    if (!log_file.empty()) context.emplace_back("log", log_file);

    if (end.signal == SIGKILL) {
        return {ErrorCode::resource,
                fmt::format("the Neuron compiler was {} on {}, most likely for want of memory", signal_text(end.signal),
                            program),
                std::move(context),
                "compile on a machine with more memory (it needs no accelerator), with --jobs 1, or with a smaller "
                "--context or --chunk; programs that were finished are kept"};
    }
    if (const KnownFailure* failure = failure_of(code)) {
        return {failure->code, fmt::format("the Neuron compiler refuses {}: {}", program, failure->cause),
                std::move(context), std::string(failure->remedy)};
    }
    if (!code.empty()) {
        return {ErrorCode::device, fmt::format("the Neuron compiler refuses {} with the code NCC_{}", program, code),
                std::move(context), "the log says more about this code; " + std::string(kReport)};
    }
    if (end.signal != 0) {
        return {ErrorCode::device, fmt::format("the Neuron compiler was {} on {}", signal_text(end.signal), program),
                std::move(context), std::string(kReport)};
    }
    if (log.find("libxml2.so.2") != std::string_view::npos) {
        return {ErrorCode::not_found, fmt::format("the Neuron compiler lacks a library for {}: libxml2.so.2", program),
                std::move(context), "install libxml2 (Debian and Ubuntu: apt-get install libxml2)"};
    }
    constexpr int kInternalError = 70;
    return {ErrorCode::device,
            fmt::format("the Neuron compiler failed on {} {}", program,
                        end.status == kInternalError ? "with an internal error, twice"
                                                     : fmt::format("with exit status {}", end.status)),
            std::move(context), "the end of the log says why; " + std::string(kReport)};
}

}  // namespace gemmatrace::neuron
