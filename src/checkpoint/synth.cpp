// Writing random checkpoints as fast as the disk takes them: values are made in one buffer while another is written.
#include "checkpoint/synth.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "base/error.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/random.h"

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;  // two of them stay in the second-level cache
constexpr size_t kSpareBytes = size_t{64} << 20;  // for the small files and the file system's own needs
constexpr std::string_view kPartial = ".partial";

size_t tensor_bytes(const SynthTensor& tensor) {
    const auto count = element_count(tensor.shape);
    const auto bytes = count ? checked_multiply(*count, 2) : std::nullopt;
    if (bytes) return static_cast<size_t>(*bytes);
    throw Error(ErrorCode::bad_request, "a tensor of this shape cannot be stored", {{"tensor", tensor.name}}, "");
}

// Values of one tensor: element n is a function of seed, name and n. A draw of 64 bits serves four elements, 12 bits
// choose each from a table of equally spaced values, which holds as many as bf16 can tell apart.
class TensorValues {
  public:
    TensorValues(const SynthTensor& tensor, uint64_t seed) : random_(seed, tensor.name) {
        for (size_t step = 0; step < kSteps; ++step) {
            const float place = (2.0F * static_cast<float>(step) + 1.0F) / static_cast<float>(kSteps) - 1.0F;
            table_[step] = float_to_bf16(tensor.center + tensor.spread * place);
        }
    }

    // Writes elements [begin, begin + count) to `out`. `begin` must be a multiple of kGroup.
    void fill(size_t begin, size_t count, std::byte* out) const {
        require(begin % kGroup == 0, "values are made in whole groups");
        for (size_t element = begin; element < begin + count; element += kGroup) {
            const uint64_t group = values_of(random_.bits(element / kGroup));
            const size_t bytes = std::min(kGroup, begin + count - element) * sizeof(uint16_t);
            if (bytes == sizeof(group)) {
                std::memcpy(out, &group, sizeof(group));  // a size the compiler knows: one store
            } else {
                std::memcpy(out, &group, bytes);
            }
            out += sizeof(group);
        }
    }

  private:
    static constexpr size_t kSteps = 4096;
    static constexpr size_t kGroup = 4;

    // The four elements of a draw, the first in the lowest bits.
    uint64_t values_of(uint64_t bits) const {
        const auto value = [&](int lane) {
            return uint64_t{table_[(bits >> (16 * lane)) & (kSteps - 1)]} << (16 * lane);
        };
        return value(0) | value(1) | value(2) | value(3);
    }

    CounterRandom random_;
    std::array<uint16_t, kSteps> table_;
};

// The data of consecutive tensors as one stream of bytes.
class DataStream {
  public:
    DataStream(std::span<const SynthTensor> tensors, uint64_t seed) : tensors_(tensors), seed_(seed) {}

    // Fills the buffer as far as there is data; answers how many bytes.
    size_t fill(std::span<std::byte> buffer) {
        size_t filled = 0;
        while (filled < buffer.size() && next_ < tensors_.size()) {
            if (!values_) values_.emplace(tensors_[next_], seed_);
            const size_t left = tensor_bytes(tensors_[next_]) - done_;
            // A tensor that is cut by the end of the buffer is cut behind a whole group.
            const size_t room = (buffer.size() - filled) / 8 * 8;
            if (room == 0) break;
            const size_t bytes = std::min(left, room);
            values_->fill(done_ / 2, bytes / 2, buffer.data() + filled);
            filled += bytes;
            done_ += bytes;
            if (bytes == left) next_tensor();
        }
        return filled;
    }

  private:
    void next_tensor() {
        ++next_;
        done_ = 0;
        values_.reset();
    }

    std::span<const SynthTensor> tensors_;
    uint64_t seed_;
    size_t next_ = 0;
    size_t done_ = 0;  // bytes of the tensor at next_
    std::optional<TensorValues> values_;
};

// A new file, closed at the end of the scope.
class OutputFile {
  public:
    explicit OutputFile(const fs::path& path)
        : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
        if (fd_ < 0) fail("cannot create the file");
    }
    ~OutputFile() {
        if (fd_ >= 0) ::close(fd_);
    }
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) fail("cannot write the file");
            bytes = bytes.subspan(static_cast<size_t>(count));
        }
    }
    // Some file systems report a full disk only here.
    void close() {
        if (::close(std::exchange(fd_, -1)) != 0) fail("cannot finish the file");
    }

  private:
    [[noreturn]] void fail(std::string_view what) const {
        throw Error(ErrorCode::resource, fmt::format("{}: {}", what, std::strerror(errno)), {{"file", path_.string()}},
                    "free disk space, or choose another folder");
    }

    fs::path path_;
    int fd_;
};

void write_text(const fs::path& path, const std::string& text) {
    OutputFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.close();
}

// A folder of files under temporary names; unless they are all published, the files and the folders that were made for
// them go away again.
class Draft {
  public:
    explicit Draft(const fs::path& directory) : directory_(directory) {
        std::error_code problem;
        if (fs::exists(directory, problem) &&
            !(fs::is_directory(directory, problem) && fs::is_empty(directory, problem))) {
            throw Error(ErrorCode::bad_request, "the output is there already and not an empty folder",
                        {{"folder", directory.string()}}, "name a new or empty folder");
        }
        make_folders(fs::absolute(directory, problem));
    }
    ~Draft() {
        if (is_published_) return;
        std::error_code ignored;  // nothing better can be done than to try
        for (const std::string& name : names_) {
            fs::remove(partial(name), ignored);
            fs::remove(directory_ / name, ignored);
        }
        remove_folders();
    }
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;

    // The temporary path of a file that will be published as `name`.
    fs::path add(const std::string& name) {
        names_.push_back(name);
        return partial(name);
    }

    // Gives all files their names, in the order in which they were added.
    void publish() {
        for (const std::string& name : names_) {
            std::error_code problem;
            fs::rename(partial(name), directory_ / name, problem);
            if (problem) fail(problem, directory_ / name);
        }
        is_published_ = true;
    }

  private:
    fs::path partial(const std::string& name) const { return directory_ / fmt::format(".{}{}", name, kPartial); }

    void make_folders(const fs::path& folder) {
        std::error_code problem;
        if (fs::exists(folder, problem)) return;
        if (folder.has_parent_path() && folder.parent_path() != folder) make_folders(folder.parent_path());
        const bool is_new = fs::create_directory(folder, problem);  // false for the empty name behind a final slash
        if (is_new) made_folders_.push_back(folder);
        if (!problem) return;
        remove_folders();
        fail(problem, folder);
    }
    void remove_folders() {
        std::error_code ignored;
        for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder)
            fs::remove(*folder, ignored);
    }
    [[noreturn]] static void fail(const std::error_code& problem, const fs::path& path) {
        throw Error(ErrorCode::resource, fmt::format("cannot create it: {}", problem.message()),
                    {{"path", path.string()}}, "check the path, its permissions and the disk");
    }

    fs::path directory_;
    std::vector<fs::path> made_folders_;  // outermost first
    bool is_published_ = false;
    std::vector<std::string> names_;
};

// Consecutive tensors that share a file.
struct Shard {
    std::span<const SynthTensor> tensors;
    size_t bytes = 0;
};

// Tensors in their order, a new shard when the next one would not fit; one larger than a shard stands alone.
std::vector<Shard> plan_shards(std::span<const SynthTensor> tensors, size_t shard_bytes) {
    std::vector<Shard> shards;
    size_t first = 0;
    size_t bytes = 0;
    for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
        const size_t size = tensor_bytes(tensors[tensor]);
        if (tensor > first && bytes + size > shard_bytes) {
            shards.push_back({tensors.subspan(first, tensor - first), bytes});
            first = tensor;
            bytes = 0;
        }
        bytes += size;
    }
    shards.push_back({tensors.subspan(first), bytes});
    return shards;
}

std::string shard_name(size_t shard, size_t shard_count) {
    if (shard_count == 1) return "model.safetensors";
    return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shard_count);
}

// Length and JSON of a shard's header, padded so that the data begins at a multiple of eight bytes.
std::string shard_header(const Shard& shard) {
    Json header;
    header["__metadata__"]["format"] = "pt";
    size_t offset = 0;
    for (const SynthTensor& tensor : shard.tensors) {
        const size_t bytes = tensor_bytes(tensor);
        header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
        offset += bytes;
    }
    std::string text = dump_json(header);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string framed;
    for (size_t byte = 0; byte < 8; ++byte) framed.push_back(static_cast<char>(text.size() >> (8 * byte)));
    return framed + text;
}

std::string index_text(const std::vector<Shard>& shards, size_t total_bytes) {
    Json index;
    index["metadata"]["total_size"] = total_bytes;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
        for (const auto& tensor : shards[shard].tensors)
            index["weight_map"][tensor.name] = shard_name(shard, shards.size());
    }
    return dump_json(index, 2) + "\n";
}

// What the published models ask for (gemma4.md 6); the 12B model must not emit two ids whose rows were overwritten.
std::string generation_config_text(const Json& config) {
    Json generation;
    generation["bos_token_id"] = 2;
    generation["do_sample"] = true;
    generation["eos_token_id"] = {1, 106, 50};
    generation["pad_token_id"] = 0;
    if (config.value("model_type", "") == "gemma4_unified") generation["suppress_tokens"] = {258883, 258882};
    generation["temperature"] = 1.0;
    generation["top_k"] = 64;
    generation["top_p"] = 0.95;
    return dump_json(generation, 2) + "\n";
}

void check_disk(const fs::path& directory, size_t needed) {
    std::error_code problem;
    const fs::space_info space = fs::space(directory, problem);
    if (problem || space.available >= needed) return;  // a file system that cannot say will fail while writing
    throw Error(ErrorCode::resource, "the disk is too small for this checkpoint",
                {{"folder", directory.string()},
                 {"needed_bytes", std::to_string(needed)},
                 {"available_bytes", std::to_string(space.available)}},
                "free disk space, choose another folder or fewer layers");
}

// Counts bytes over all shards, reports them ten times a second and asks after each buffer whether to stop.
class Meter {
  public:
    Meter(size_t total, const std::function<void(size_t, size_t)>& progress, const std::function<bool()>& cancelled)
        : total_(total), progress_(progress), cancelled_(cancelled) {}

    void add(size_t bytes) {
        done_ += bytes;
        if (cancelled_ && cancelled_()) {
            throw Error(ErrorCode::interrupted, "stopped on request; nothing was left behind", {}, "");
        }
        const auto now = std::chrono::steady_clock::now();
        if (!progress_ || (done_ < total_ && now - reported_ < std::chrono::milliseconds(100))) return;
        reported_ = now;
        progress_(done_, total_);
    }

  private:
    size_t total_;
    size_t done_ = 0;
    const std::function<void(size_t, size_t)>& progress_;
    const std::function<bool()>& cancelled_;
    std::chrono::steady_clock::time_point reported_;
};

void write_shard(const fs::path& path, const Shard& shard, uint64_t seed, Meter& meter) {
    OutputFile file(path);
    const std::string header = shard_header(shard);
    file.write(std::as_bytes(std::span(header)));
    DataStream stream(shard.tensors, seed);
    std::vector<std::byte> front(kBufferBytes);
    std::vector<std::byte> back(kBufferBytes);
    size_t filled = stream.fill(front);
    while (filled > 0) {
        auto next = std::async(std::launch::async, [&] { return stream.fill(back); });
        file.write(std::span(front).first(filled));
        meter.add(filled);
        filled = next.get();
        std::swap(front, back);
    }
    file.close();
}

}  // namespace

void write_synthetic_checkpoint(const std::filesystem::path& directory, const nlohmann::ordered_json& config,
                                std::span<const SynthTensor> tensors, uint64_t seed, size_t shard_bytes,
                                const std::function<void(size_t, size_t)>& progress,
                                const std::function<bool()>& cancelled) {
    const std::vector<Shard> shards = plan_shards(tensors, shard_bytes);
    size_t total = 0;
    for (const Shard& shard : shards) total += shard.bytes;
    Draft draft(directory);
    check_disk(directory, total + kSpareBytes);
    Meter meter(total, progress, cancelled);
    for (size_t shard = 0; shard < shards.size(); ++shard) {
        write_shard(draft.add(shard_name(shard, shards.size())), shards[shard], seed, meter);
    }
    if (shards.size() > 1) write_text(draft.add("model.safetensors.index.json"), index_text(shards, total));
    write_text(draft.add("generation_config.json"), generation_config_text(config));
    write_text(draft.add("config.json"), dump_json(config, 2) + "\n");
    draft.publish();
}

}  // namespace gemmatrace::checkpoint
