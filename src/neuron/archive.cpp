// Tar blocks from memory or from zlib; every length is checked before it is believed.
#include "neuron/archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/printable.h"

namespace gemmatrace::neuron {
namespace {

constexpr size_t kBlockBytes = 512;

[[noreturn]] void fail_archive(const std::string& where, std::string fault) {
    throw Error(ErrorCode::corrupt, std::move(fault), {{"file", printable(where)}},
                "compile the program again; if the file was copied, copy it again");
}

// Bytes of the unpacked archive, in order.
class ArchiveSource {
  public:
    explicit ArchiveSource(const std::string& where) : where_(where) {}
    virtual ~ArchiveSource() = default;
    ArchiveSource(const ArchiveSource&) = delete;
    ArchiveSource& operator=(const ArchiveSource&) = delete;

    // Fills `to`; fewer bytes only at the end.
    size_t read(std::span<char> to) {
        size_t done = 0;
        while (done < to.size()) {
            const size_t count = read_some(to.subspan(done));
            if (count == 0) break;
            done += count;
        }
        total_ += done;
        if (total_ > kLargestArchiveBytes) {
            fail_archive(where_, fmt::format("the archive unpacks to more than {} bytes", kLargestArchiveBytes));
        }
        return done;
    }
    void read_exactly(std::span<char> to) {
        if (read(to) != to.size()) fail_archive(where_, "the archive ends in the middle of a member");
    }
    void skip(uint64_t bytes) {
        std::array<char, 64 * kBlockBytes> sink;
        while (bytes > 0) {
            const auto count = static_cast<size_t>(std::min<uint64_t>(bytes, sink.size()));
            read_exactly(std::span(sink).first(count));
            bytes -= count;
        }
    }
    void skip_rest() {
        std::array<char, 64 * kBlockBytes> sink;
        while (read(sink) == sink.size()) {
        }
    }

  protected:
    virtual size_t read_some(std::span<char> to) = 0;
    const std::string& where_;

  private:
    uint64_t total_ = 0;
};

class PlainSource : public ArchiveSource {
  public:
    PlainSource(std::span<const std::byte> bytes, const std::string& where) : ArchiveSource(where), bytes_(bytes) {}

  private:
    size_t read_some(std::span<char> to) override {
        const size_t count = std::min(to.size(), bytes_.size());
        if (count > 0) std::memcpy(to.data(), bytes_.data(), count);
        bytes_ = bytes_.subspan(count);
        return count;
    }
    std::span<const std::byte> bytes_;
};

// The compiler may compress in parallel, which gives several gzip members in a row.
class GzipSource : public ArchiveSource {
  public:
    GzipSource(std::span<const std::byte> bytes, const std::string& where) : ArchiveSource(where), bytes_(bytes) {
        constexpr int kGzipWindow = 15 + 16;
        if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
            throw Error(ErrorCode::resource, "zlib cannot start", {}, "free some memory");
        }
    }
    ~GzipSource() override { inflateEnd(&stream_); }

  private:
    size_t read_some(std::span<char> to) override {
        if (is_at_end_) return 0;
        constexpr size_t kLargestStep = size_t{1} << 30;  // zlib counts in 32 bits
        to = to.first(std::min(to.size(), kLargestStep));
        stream_.next_out = reinterpret_cast<Bytef*>(to.data());
        stream_.avail_out = static_cast<uInt>(to.size());
        while (stream_.avail_out == to.size() && !is_at_end_) inflate_step(std::min(bytes_.size(), kLargestStep));
        return to.size() - stream_.avail_out;
    }

    void inflate_step(size_t input) {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes_.data()));
        stream_.avail_in = static_cast<uInt>(input);
        const int status = inflate(&stream_, Z_NO_FLUSH);
        bytes_ = bytes_.subspan(input - stream_.avail_in);
        if (status == Z_STREAM_END) return begin_next_member();
        if (status == Z_BUF_ERROR && bytes_.empty()) fail_archive(where_, "the compressed archive ends too early");
        if (status != Z_OK) {
            fail_archive(where_, fmt::format("the archive cannot be decompressed: {}",
                                             stream_.msg != nullptr ? stream_.msg : zError(status)));
        }
    }

    void begin_next_member() {
        is_at_end_ = std::ranges::all_of(bytes_, [](std::byte byte) { return byte == std::byte{0}; });
        if (!is_at_end_) inflateReset(&stream_);
    }

    std::span<const std::byte> bytes_;
    z_stream stream_ = {};
    bool is_at_end_ = false;
};

std::unique_ptr<ArchiveSource> open_source(std::span<const std::byte> bytes, const std::string& where) {
    const bool is_gzip = bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
    if (is_gzip) return std::make_unique<GzipSource>(bytes, where);
    return std::make_unique<PlainSource>(bytes, where);
}

// An octal number as tar writes it, ended by a space, a zero byte or the field's end.
std::optional<uint64_t> octal(std::string_view field) {
    while (field.starts_with(' ')) field.remove_prefix(1);
    uint64_t value = 0;
    size_t digits = 0;
    for (; digits < field.size() && field[digits] >= '0' && field[digits] <= '7'; ++digits) {
        value = value * 8 + static_cast<uint64_t>(field[digits] - '0');  // at most 12 digits: no overflow
    }
    const bool is_ended = digits == field.size() || field[digits] == ' ' || field[digits] == '\0';
    return digits > 0 && is_ended ? std::optional(value) : std::nullopt;
}

std::string_view text_field(std::string_view block, size_t at, size_t length) {
    const std::string_view field = block.substr(at, length);
    return field.substr(0, field.find('\0'));
}

struct TarHeader {
    std::string name;
    uint64_t bytes = 0;
    bool is_file = false;
};

// Source: POSIX ustar, the header block.
TarHeader parse_header(std::string_view block, const std::string& where) {
    uint64_t sum = 0;
    for (size_t place = 0; place < block.size(); ++place) {
        const bool is_checksum = place >= 148 && place < 156;  // counted as spaces
        sum += is_checksum ? ' ' : static_cast<unsigned char>(block[place]);
    }
    if (octal(block.substr(148, 8)) != sum) fail_archive(where, "a header of the archive has a wrong checksum");
    TarHeader header;
    const auto bytes = octal(block.substr(124, 12));
    if (!bytes) fail_archive(where, "a member of the archive has no size");
    header.bytes = *bytes;
    if (text_field(block, 257, 5) == "ustar" && block[345] != '\0') {
        header.name = std::string(text_field(block, 345, 155)) + "/";
    }
    header.name += text_field(block, 0, 100);
    if (header.name.starts_with("./")) header.name.erase(0, 2);
    header.is_file = block[156] == '0' || block[156] == '\0' || block[156] == '7';
    return header;
}

bool is_zero(std::string_view block) {
    return std::ranges::all_of(block, [](char byte) { return byte == '\0'; });
}

}  // namespace

void read_archive(std::span<const std::byte> archive, const std::string& where,
                  const std::function<bool(std::string_view name)>& wants,
                  const std::function<void(const std::string& name, std::string content)>& take) {
    const auto source = open_source(archive, where);
    std::array<char, kBlockBytes> block;
    for (;;) {
        const size_t count = source->read(block);
        const std::string_view bytes(block.data(), count);
        if (count == 0 || (count == kBlockBytes && is_zero(bytes))) break;
        if (count < kBlockBytes) fail_archive(where, "the archive ends in the middle of a header");
        const TarHeader header = parse_header(bytes, where);
        if (header.bytes > kLargestArchiveBytes) {
            fail_archive(where,
                         fmt::format("member {} of the archive has {} bytes", printable(header.name), header.bytes));
        }
        const uint64_t padding = (kBlockBytes - header.bytes % kBlockBytes) % kBlockBytes;
        if (!header.is_file || !wants(header.name)) {
            source->skip(header.bytes + padding);
            continue;
        }
        if (header.bytes > kLargestMemberBytes) {
            fail_archive(where, fmt::format("member {} has {} bytes, more than the {} that are read",
                                            printable(header.name), header.bytes, kLargestMemberBytes));
        }
        std::string content;
        constexpr uint64_t kPiece = uint64_t{1} << 20;  // a false size costs no more memory than there are bytes
        while (content.size() < header.bytes) {
            const auto piece = static_cast<size_t>(std::min(kPiece, header.bytes - content.size()));
            content.resize(content.size() + piece);
            source->read_exactly(std::span(content).last(piece));
        }
        source->skip(padding);
        take(header.name, std::move(content));
    }
    source->skip_rest();
}

}  // namespace gemmatrace::neuron
