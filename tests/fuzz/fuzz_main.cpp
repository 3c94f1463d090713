// Runs a fuzz target without libFuzzer: every file of a corpus, then some hundred mutations of each, the same every
// time.
//
//   fuzz_NAME CORPUS            run the folder's files and their mutations
//   fuzz_NAME --verbose CORPUS  the same, naming each input before it runs: the last name is that of a crash
//   fuzz_NAME FILE              run one file as it is, e.g. one that libFuzzer has left
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using gemmatrace::CounterRandom;

constexpr int kMutations = 300;  // of each file
constexpr size_t kLargestInput = 1 << 16;

// A sequence of draws from one counter-based stream.
class Draws {
  public:
    explicit Draws(std::string_view name) : random_(1, name) {}
    size_t below(size_t bound) { return bound == 0 ? 0 : random_.bits(counter_++) % bound; }

  private:
    CounterRandom random_;
    uint64_t counter_ = 0;
};

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// One small change: what a broken download, a careless editor or an attacker would do.
void mutate(std::string& input, Draws& draws) {
    static constexpr std::string_view kPieces[] = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   "\"",
                                                   "\\",
                                                   ":",
                                                   ",",
                                                   "0",
                                                   "-1",
                                                   "1e",
                                                   "null",
                                                   "%}",
                                                   "{{",
                                                   "{%",
                                                   "\xff",
                                                   std::string_view("\0", 1),
                                                   "\xf0",
                                                   "\n",
                                                   "\x7f",
                                                   " ",
                                                   "\xc2\xa0",
                                                   "\\ud800",
                                                   "18446744073709551615"};
    const size_t at = draws.below(input.size() + 1);
    const size_t length = std::min(draws.below(16) + 1, input.size() - at);
    switch (draws.below(7)) {
        case 0:  // one bit
            if (!input.empty()) input[at % input.size()] ^= static_cast<char>(1U << draws.below(8));
            break;
        case 1:  // one byte
            if (!input.empty()) input[at % input.size()] = static_cast<char>(draws.below(256));
            break;
        case 2:
            input.erase(at, length);
            break;
        case 3:
            input.resize(at);
            break;
        case 4:
            input.insert(draws.below(input.size() + 1), input.substr(at, length));
            break;
        case 5:
            input.insert(at, kPieces[draws.below(std::size(kPieces))]);
            break;
        default:
            input.insert(at, std::string(draws.below(200), "[{(\"A"[draws.below(5)]));
            break;
    }
    if (input.size() > kLargestInput) input.resize(kLargestInput);
}

// Runs the target on a copy of exactly the input's size, so that a sanitizer sees any read beyond it.
bool run(const std::string& input, const std::string& label, bool is_verbose) {
    if (is_verbose) std::fprintf(stderr, "%s\n", label.c_str());
    const auto copy = std::make_unique<uint8_t[]>(input.size());
    std::memcpy(copy.get(), input.data(), input.size());
    try {
        LLVMFuzzerTestOneInput(copy.get(), input.size());
        return true;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: an exception left the target: %s\n", label.c_str(), error.what());
        return false;
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const bool is_verbose = argument_count > 2 && std::string_view(arguments[1]) == "--verbose";
    if (argument_count < 2) {
        std::fprintf(stderr, "usage: %s [--verbose] CORPUS_FOLDER | FILE\n", arguments[0]);
        return 2;
    }
    const fs::path corpus = arguments[argument_count - 1];
    if (fs::is_regular_file(corpus)) return run(read_file(corpus), corpus.string(), is_verbose) ? 0 : 1;
    if (!fs::is_directory(corpus)) {
        std::fprintf(stderr, "%s is neither a corpus folder nor a file\n", corpus.string().c_str());
        return 2;
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(corpus)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    bool is_clean = !files.empty();
    for (const fs::path& file : files) {
        const std::string name = file.filename().string();
        const std::string original = read_file(file);
        is_clean = run(original, name, is_verbose) && is_clean;
        Draws draws(name);
        for (int mutation = 0; mutation < kMutations; ++mutation) {
            std::string input = original;
            for (size_t changes = draws.below(4) + 1; changes > 0; --changes) mutate(input, draws);
            is_clean = run(input, name + " mutation " + std::to_string(mutation), is_verbose) && is_clean;
        }
    }
    std::printf("%zu files, %d mutations of each: %s\n", files.size(), kMutations, is_clean ? "clean" : "FAILED");
    return is_clean ? 0 : 1;
}
