// Plain reading: a golden that is malformed fails the test with the JSON library's message.
#include "goldens/golden_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/bf16.h"
#include "base/file_mapping.h"
#include "base/json.h"

namespace gemmatrace::goldens {
namespace {

using nlohmann::ordered_json;

GoldenRun read_run(const ordered_json& entry) {
    GoldenRun run;
    run.prompt = entry.at("prompt").get<size_t>();
    run.precision = entry.at("precision") == "fp32" ? model::Precision::fp32 : model::Precision::bf16;
    run.ids = entry.at("ids").get<std::vector<int32_t>>();
    run.stop_step = entry.at("stop_step").get<int64_t>();
    run.top_ids = entry.at("top_ids").get<std::vector<int32_t>>();
    for (const auto& logit : entry.at("top_logits")) run.top_logits.push_back(static_cast<float>(logit.get<double>()));
    for (const auto& margin : entry.at("margins")) run.margins.push_back(static_cast<float>(margin.get<double>()));
    if (entry.contains("unjudged")) run.unjudged = entry.at("unjudged").get<std::vector<int64_t>>();
    if (entry.contains("exceptions")) run.exceptions = entry.at("exceptions").get<std::vector<std::vector<int64_t>>>();
    return run;
}

Pass read_pass(const ordered_json& entry, const std::string& hashes) {
    Pass pass;
    pass.prompt = entry.at("prompt").get<size_t>();
    pass.ids = entry.at("ids").get<std::vector<int32_t>>();
    for (const auto& stage : entry.at("stages")) {
        Stage read{stage.at("name").get<std::string>(), std::vector<uint64_t>(pass.ids.size())};
        const auto offset = stage.at("offset").get<size_t>();
        const size_t bytes = read.row_hashes.size() * sizeof(uint64_t);
        if (offset + bytes > hashes.size()) throw std::runtime_error("layers.bin is shorter than golden.json says");
        std::memcpy(read.row_hashes.data(), hashes.data() + offset, bytes);
        pass.stages.push_back(std::move(read));
    }
    return pass;
}

}  // namespace

const Stage* Pass::find(const std::string& name) const {
    const auto stage =
        std::find_if(stages.begin(), stages.end(), [&](const Stage& entry) { return entry.name == name; });
    return stage == stages.end() ? nullptr : &*stage;
}

std::vector<std::filesystem::path> checkpoints_with_goldens() {
    std::vector<std::filesystem::path> found;
    const std::filesystem::path root = GEMMATRACE_SOURCE_DIR;
    for (const auto& folder : {root / "models", root / "tests" / "goldens" / "checkpoints"}) {
        std::vector<std::filesystem::path> here;
        if (!std::filesystem::is_directory(folder)) continue;
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (std::filesystem::exists(entry.path() / "golden.json")) here.push_back(entry.path());
        }
        std::sort(here.begin(), here.end());
        found.insert(found.end(), here.begin(), here.end());
    }
    return found;
}

Golden read_golden(const std::filesystem::path& checkpoint) {
    const ordered_json document = read_json_file(checkpoint / "golden.json");
    if (document.at("format") != "gemmatrace-golden-1") throw std::runtime_error("golden.json has an unknown format");
    Golden golden;
    golden.checkpoint = checkpoint;
    golden.eos_token_ids = document.at("eos_token_ids").get<std::vector<int32_t>>();
    golden.suppress_token_ids = document.at("suppress_token_ids").get<std::vector<int32_t>>();
    golden.top = document.at("top").get<size_t>();
    for (const auto& entry : document.at("prompts")) {
        golden.prompts.push_back({entry.at("name").get<std::string>(), entry.at("kind").get<std::string>(),
                                  entry.at("ids").get<std::vector<int32_t>>()});
    }
    for (const auto& entry : document.at("runs")) golden.runs.push_back(read_run(entry));
    const auto& layer_file = document.at("layer_file");
    const std::string hashes = read_file(checkpoint / layer_file.at("name").get<std::string>(), size_t{64} << 20);
    for (const auto& entry : layer_file.at("passes")) golden.passes.push_back(read_pass(entry, hashes));
    return golden;
}

uint64_t row_hash(std::span<const float> values) {
    uint64_t hash = 14695981039346656037ULL;
    for (const float value : values) {
        const uint16_t bits = float_to_bf16(value);
        hash = (hash ^ (bits & 0xffU)) * 1099511628211ULL;
        hash = (hash ^ (bits >> 8)) * 1099511628211ULL;
    }
    return hash;
}

}  // namespace gemmatrace::goldens
