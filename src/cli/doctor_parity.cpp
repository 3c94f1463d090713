// The CPU goes first and keeps its logits of the compared positions only, so that the host never holds both at work.
#include "cli/doctor_parity.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "cli/doctor_bench.h"
#include "cli/interrupt.h"
#include "cpu/runner.h"
#include "model/decision.h"
#include "neuron/nrt_library.h"
#include "trace/bundle.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;
using ParityClock = std::chrono::steady_clock;

constexpr size_t kMostCompared = 48;      // decoded positions
constexpr size_t kMostFaults = 5;         // that are named
constexpr size_t kLastRows = 16;          // of the vocabulary, looked at by themselves
constexpr double kTimesDifference = 2.0;  // the lead that a choice may have lost where logits differ by so much

double since(ParityClock::time_point start) {
    return std::chrono::duration<double>(ParityClock::now() - start).count();
}

// The lengths of a sequence after which logits are compared.
struct ParityPlan {
    int64_t prompt = 0;  // prefilled before decoding
    int64_t end = 0;     // decoded up to here
    std::set<int64_t> prefills;
    std::set<int64_t> decodes;

    ParityPlan(const trace::Geometry& geometry, const checkpoint::ModelConfig& config,
               std::span<const int64_t> buckets) {
        const int64_t chunk = geometry.chunk_tokens;
        end = geometry.context_tokens - 1;
        prompt = std::min(chunk + chunk / 2, end);
        prefills = {chunk - 1, chunk, chunk + 1, prompt, end};
        const auto around = [&](int64_t length) {
            for (const int64_t at : {length - 1, length, length + 1}) decodes.insert(at);
        };
        around(prompt + 1);
        around(2 * chunk);
        around(geometry.ring_rows(config));
        for (const int64_t bucket : buckets) around(bucket);
        decodes.insert(end);
        const auto others = static_cast<int64_t>(kMostCompared);
        for (int64_t part = 1; part < others && decodes.size() < kMostCompared; ++part) {
            decodes.insert(prompt + (end - prompt) * part / others);
        }
        const auto is_outside = [&](int64_t length) { return length <= prompt || length > end; };
        std::erase_if(decodes, is_outside);
        std::erase_if(prefills, [&](int64_t length) { return length < 1 || length > end; });
    }
};

// Ids from the whole vocabulary, the last ones among them, but none that stand for media.
std::vector<int32_t> parity_ids(const checkpoint::ModelConfig& config, size_t count) {
    std::minstd_rand random(11);
    const int32_t rows = config.ple_dim > 0 ? std::min(config.vocab_size, config.ple_vocab_size) : config.vocab_size;
    std::vector<int32_t> ids = {config.bos_token_id.value_or(2)};
    while (ids.size() < count) {
        const bool is_last = ids.size() % 9 == 4;
        const auto among = static_cast<uint32_t>(is_last ? std::min<int32_t>(rows, kLastRows) : rows);
        int32_t id = rows - 1 - static_cast<int32_t>(random() % among);
        while (id > 0 && std::ranges::find(config.media_token_ids, id) != config.media_token_ids.end()) --id;
        ids.push_back(id);
    }
    return ids;
}

std::map<int64_t, std::vector<float>> cpu_logits(const std::filesystem::path& checkpoint, const ParityPlan& plan,
                                                 std::span<const int32_t> ids, StepFinding& finding) {
    const auto start = ParityClock::now();
    cpu::Runner runner(checkpoint, {});
    cpu::Slot slot = runner.new_slot(plan.end + 1);
    std::set<int64_t> lengths = plan.prefills;
    lengths.insert(plan.decodes.begin(), plan.decodes.end());
    std::map<int64_t, std::vector<float>> rows;
    for (const int64_t length : lengths) {
        const auto done = static_cast<size_t>(slot.length());
        const auto logits = runner.extend(slot, ids.subspan(done, static_cast<size_t>(length) - done), is_interrupted);
        throw_if_interrupted();
        rows[length].assign(logits.begin(), logits.end());
    }
    finding.seen["cpu_seconds"] = since(start);
    return rows;
}

// Compares rows and counts.
class ParityJudge {
  public:
    ParityJudge(const StepContext& context, const checkpoint::ModelConfig& config)
        : bound_(context.expect.of("logits_relative")), far_rows_(context.expect.of("far_rows")), config_(config) {}

    void compare(const std::string& where, std::span<const float> expected, std::span<const float> got,
                 int32_t best_id) {
        double largest = 0.0, difference = 0.0, of_last = 0.0;
        for (size_t id = 0; id < got.size(); ++id) {
            const double apart = std::abs(static_cast<double>(expected[id]) - static_cast<double>(got[id]));
            largest = std::max(largest, std::abs(static_cast<double>(expected[id])));
            difference = std::max(difference, apart);
            if (id + kLastRows >= got.size()) of_last = std::max(of_last, apart);
        }
        const double relative = difference / std::max(largest, 1e-30);
        ++rows_;
        worst_ = std::max(worst_, relative);
        worst_of_last_ = std::max(worst_of_last_, of_last / std::max(largest, 1e-30));
        if (relative > bound_) note(fmt::format("{}: logits differ by {:.3f} of the largest", where, relative), far_);
        const int32_t chosen = model::greedy_token(expected, config_.final_softcap, model::Precision::bf16, {});
        if (chosen == best_id) return;
        ++other_choices_;
        const double lead = static_cast<double>(expected[static_cast<size_t>(chosen)]) -
                            static_cast<double>(expected[static_cast<size_t>(best_id)]);
        if (lead > kTimesDifference * difference) {
            note(fmt::format("{}: id {} was chosen instead of {}", where, best_id, chosen), wrong_);
        }
    }

    void finish(StepFinding& finding) const {
        finding.seen["rows"] = rows_;
        finding.seen["worst_relative"] = worst_;
        finding.seen["worst_relative_of_last_rows"] = worst_of_last_;
        finding.seen["other_choices"] = other_choices_;
        finding.seen["far_rows"] = far_;
        const bool is_far = static_cast<double>(far_) > far_rows_ * static_cast<double>(rows_);
        if (!is_far && wrong_ == 0) return;
        finding.fail(
            fmt::format("of {} rows {} differ too much, and {} choose another id without reason", rows_, far_, wrong_));
        for (const std::string& fault : faults_) finding.fail(fault);
    }

  private:
    void note(std::string fault, size_t& count) {
        ++count;
        if (faults_.size() < kMostFaults) faults_.push_back(std::move(fault));
    }

    double bound_, far_rows_;
    const checkpoint::ModelConfig& config_;
    size_t rows_ = 0, far_ = 0, wrong_ = 0, other_choices_ = 0;
    double worst_ = 0.0, worst_of_last_ = 0.0;
    std::vector<std::string> faults_;
};

// What the runtime counts on each core, where it tells.
ordered_json core_memory(int32_t ranks) {
    const auto library = neuron::NrtLibrary::open();
    ordered_json all = ordered_json::array();
    for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto stats = library.memory_stats(rank);
        if (!stats) return nullptr;
        all.push_back({{"used_bytes", stats->bytes_used}, {"limit_bytes", stats->bytes_limit}});
    }
    return all;
}

class DeviceSide {
  public:
    DeviceSide(const StepContext& context, const std::filesystem::path& checkpoint, const trace::Bundle& bundle,
               StepFinding& finding)
        : finding_(finding), slots_(bundle.manifest().geometry.slots) {
        neuron::NeuronOptions options = doctor_device_options(context, bundle.directory() / "programs");
        options.neff_of =
            neuron::neffs_of(bundle.directory(), neuron::read_compiled(bundle.directory(), bundle.manifest()));
        const auto start = ParityClock::now();
        uint64_t weight_bytes = 0;
        trace::DeviceModelOptions programs = bundle.options();
        programs.progress = [&](uint64_t, uint64_t total) { weight_bytes = total; };
        const int32_t ranks = programs.geometry.ranks;
        model_ = std::make_unique<trace::DeviceModel>(neuron::make_neuron_device(ranks, std::move(options)), checkpoint,
                                                      std::move(programs));
        finding_.seen["ranks"] = ranks;
        finding_.seen["slots"] = slots_;
        finding_.seen["load_seconds"] = since(start);
        finding_.seen["weight_bytes_of_all_ranks"] = weight_bytes;
        finding_.seen["core_memory"] = core_memory(ranks);
    }

    void prefill_all(const ParityPlan& plan, std::span<const int32_t> ids, const auto& expected, ParityJudge& judge) {
        for (const int64_t length : plan.prefills) {
            throw_if_interrupted();
            model_->trim(0, 0);
            const auto start = ParityClock::now();
            model_->prefill(0, ids.first(static_cast<size_t>(length)));
            const double seconds = since(start);
            const int64_t chunk = model_->geometry().chunk_tokens;
            prefill_ms_ = seconds * 1e3 / static_cast<double>((length + chunk - 1) / chunk);
            judge.compare(fmt::format("a prefill of {} tokens", length), expected.at(length), model_->logits(0),
                          model_->best_ids()[0]);
        }
        finding_.seen["prefill_chunk_ms"] = prefill_ms_;  // of the longest
    }

    void decode_all(const ParityPlan& plan, std::span<const int32_t> ids, std::span<const int64_t> buckets,
                    const auto& expected, ParityJudge& judge) {
        std::vector<int32_t> slots;
        for (int32_t slot = 0; slot < slots_; ++slot) {
            slots.push_back(slot);
            model_->trim(slot, 0);
            model_->prefill(slot, ids.first(static_cast<size_t>(plan.prompt)));
        }
        std::map<int64_t, std::vector<double>> milliseconds;
        for (int64_t length = plan.prompt + 1; length <= plan.end; ++length) {
            throw_if_interrupted();
            const std::vector<int32_t> same(slots.size(), ids[static_cast<size_t>(length) - 1]);
            const auto start = ParityClock::now();
            model_->decode(slots, same);
            milliseconds[*std::ranges::lower_bound(buckets, length - 1)].push_back(since(start) * 1e3);
            if (!plan.decodes.contains(length)) continue;
            for (size_t slot = 0; slot < slots.size(); ++slot) {
                judge.compare(fmt::format("the token at position {} in slot {}", length - 1, slot), expected.at(length),
                              model_->logits(slot), model_->best_ids()[slot]);
            }
        }
        for (const auto& [bucket, times] : milliseconds) {
            finding_.seen["decode_ms"][std::to_string(bucket)] = median_of(times);
        }
    }

  private:
    StepFinding& finding_;
    int32_t slots_;
    std::unique_ptr<trace::DeviceModel> model_;
    double prefill_ms_ = 0.0;
};

}  // namespace

StepFinding compare_with_cpu(const StepContext& context, const std::filesystem::path& checkpoint,
                             const std::filesystem::path& bundle_folder) {
    StepFinding finding;
    const trace::Bundle bundle(bundle_folder);
    trace::check_fits_checkpoint(bundle, checkpoint);
    const checkpoint::ModelConfig config = checkpoint::load_config(checkpoint);
    const trace::Manifest& manifest = bundle.manifest();
    const ParityPlan plan(manifest.geometry, config, manifest.buckets);
    const std::vector<int32_t> ids = parity_ids(config, static_cast<size_t>(plan.end));
    const auto expected = cpu_logits(checkpoint, plan, ids, finding);
    ParityJudge judge(context, config);
    {
        DeviceSide device(context, checkpoint, bundle, finding);
        device.prefill_all(plan, ids, expected, judge);
        device.decode_all(plan, ids, manifest.buckets, expected, judge);
    }
    judge.finish(finding);
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    finding.seen["host_peak_bytes"] = static_cast<int64_t>(usage.ru_maxrss) * 1024;
    return finding;
}

}  // namespace gemmatrace::cli
