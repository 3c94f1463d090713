// NEFFs read: what a sound one says, and that nothing in a damaged one is believed.
#include "neuron/neff.h"

#include "standin/neff_writer.h"
#include "support/expect_error.h"

namespace gemmatrace::neuron {
namespace {

using standin::gzip;
using standin::NeffContent;
using standin::with_neff_header;
using standin::write_neff;
using testing::expect_error;

NeffContent decode_step() {
    NeffContent content;
    content.feature_bits = 0x8000000000000001;
    content.name = "decode_c64.neff";
    content.variables = {{"hidden", "input", 128},        {"cache.must_alias_input", "input", 4096},
                         {"cache", "output", 4096},       {"token", "output", 4},
                         {"spill", "virtual", 1000, 512}, {"low", "virtual", 400, 0},
                         {"queue", "tmp-buf", 7}};
    content.members = {{"standin/program.hlo.pb", std::string("\x0a\x00\x01proto", 8)}};
    return content;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

NeffInfo read(const std::string& file) { return read_neff(bytes_of(file), "decode.neff"); }

void expect_corrupt(const std::string& fragment, const std::string& file) {
    expect_error(ErrorCode::corrupt, {fragment, "decode.neff"}, [&] { read(file); });
}

TEST(Neff, SaysItsHeaderAndItsTensorsCompressedOrNot) {
    for (const bool is_compressed : {true, false}) {
        NeffContent content = decode_step();
        content.is_compressed = is_compressed;
        const std::string file = write_neff(content);
        const NeffInfo info = read(file);
        EXPECT_EQ(info.version_major, 2U);
        EXPECT_EQ(info.feature_bits, 0x8000000000000001);
        EXPECT_EQ(info.lnc_size, 1U);
        EXPECT_EQ(info.build_version, "2.23.6484.0+standin");
        EXPECT_EQ(info.name, "decode_c64.neff");
        EXPECT_EQ(info.scratchpad_bytes, 1512U);
        ASSERT_EQ(info.tensors.size(), 7U);
        EXPECT_EQ(info.tensors[1], (NeffTensor{"cache.must_alias_input", NeffTensor::Kind::input, 4096}));
        EXPECT_EQ(info.tensors[4].kind, NeffTensor::Kind::scratch);
        EXPECT_EQ(info.tensors[6].kind, NeffTensor::Kind::other);
        EXPECT_EQ(neff_member(bytes_of(file), "standin/program.hlo.pb", "decode.neff"), content.members[0].second);
        expect_error(ErrorCode::not_found, {"sg01/def.json"},
                     [&] { neff_member(bytes_of(file), "sg01/def.json", "decode.neff"); });
    }
}

TEST(Neff, MayBeCompressedInSeveralPieces) {
    NeffContent content = decode_step();
    content.is_compressed = false;
    const std::string archive = standin::neff_archive(content);
    const std::string packed = gzip(archive.substr(0, 700)) + gzip(archive.substr(700)) + std::string(3, '\0');
    EXPECT_EQ(read(with_neff_header(content, packed)).tensors.size(), 7U);
}

TEST(Neff, F049ThatWasCutAnywhereIsNone) {
    for (const bool is_compressed : {true, false}) {
        NeffContent content = decode_step();
        content.is_compressed = is_compressed;
        const std::string file = write_neff(content);
        for (size_t length = 0; length < file.size(); length += 97) expect_corrupt("NEFF", file.substr(0, length));
        // Cut with a header that says so: the archive itself has to notice.
        const std::string archive = file.substr(1024);
        const size_t end_of_list = is_compressed ? archive.size() : 1800;
        for (size_t length = 0; length < end_of_list; length += 61) {
            expect_corrupt("archive", with_neff_header(content, archive.substr(0, length)));
        }
        expect_corrupt("there are", file + "x");
    }
}

TEST(Neff, ThatHasAFlippedBitIsNoneWhenCompressedOrStillSaysTheSame) {
    const std::string file = write_neff(decode_step());
    const NeffInfo info = read(file);
    size_t refused = 0;
    for (size_t place = 1024 + 10; place < file.size(); ++place) {  // beyond gzip's own header
        std::string damaged = file;
        damaged[place] = static_cast<char>(damaged[place] ^ 4);
        try {
            EXPECT_EQ(read(damaged).tensors, info.tensors) << place;  // zeros copied from elsewhere are zeros
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::corrupt);
            ++refused;
        }
    }
    EXPECT_GT(refused, (file.size() - 1024) * 3 / 4);
}

TEST(Neff, IsHeldToItsListOfVariables) {
    const auto with_list = [](const std::string& definition) {
        std::string archive;
        standin::append_tar_member(archive, "./sg00/def.json", definition);
        return with_neff_header({}, archive);
    };
    EXPECT_EQ(read(with_list(R"({"var": {"x": {"size": 4, "type": "input", "more": {"size": 9, "type": "output"}}}})"))
                  .tensors.at(0),
              (NeffTensor{"x", NeffTensor::Kind::input, 4}));
    EXPECT_EQ(read(with_list(R"({"other": {"var": {"y": {"type": "input"}}}, "list": [{"var": 1}], "var": {}})"))
                  .tensors.size(),
              0U);
    EXPECT_EQ(read(with_list(R"({"var": {"w": {"type": ["input"], "size": [3]}, "v": {"type": {"a": "input"}}}})"))
                  .tensors.at(1),
              (NeffTensor{"v", NeffTensor::Kind::other, 0}));
    const std::string huge = std::to_string(UINT64_MAX);
    for (const auto& [fault, definition] : std::vector<std::pair<std::string, std::string>>{
             {"size of x is missing", R"({"var": {"x": {"type": "input"}}})"},
             {"size of x is missing", R"({"var": {"x": {"type": "output", "size": -4}}})"},
             {"size of x is missing", R"({"var": {"x": {"type": "output", "size": 4.5}}})"},
             {"impossible",
              R"({"var": {"x": {"type": "virtual", "size": )" + huge + R"(, "backing_variable_off": 9}}})"},
             {"impossible", R"({"var": {"x": {"type": "virtual", "size": 9, "backing_variable_off": )" + huge + "}}}"},
             {"twice", R"({"var": {"x": {"type": "input", "size": 4}, "x": {"type": "input", "size": 4}}})"},
             {"two lists", R"({"var": {}, "var": {}})"},
             {"no list", R"([{"var": {}}])"},
             {"no JSON", R"({"var": {)"},
             {"no JSON", std::string("\xff\xfe")},
             {"nested", std::string(300, '[')}}) {
        expect_corrupt(fault, with_list(definition));
    }
}

TEST(Neff, HasOneListOfVariablesInASoundArchive) {
    std::string archive;
    standin::append_tar_member(archive, "kelf-0.json", "{}");
    expect_corrupt("0 members", with_neff_header({}, archive));
    for (int copies = 0; copies < 2; ++copies) standin::append_tar_member(archive, "sg00/def.json", R"({"var": {}})");
    expect_corrupt("2 members", with_neff_header({}, archive));

    const auto with_size = [](const char* size) {
        std::string member;
        standin::append_tar_member(member, "sg00/def.json", R"({"var": {}})");
        member.replace(124, 12, std::string(size), 0, 12);
        unsigned sum = 0;
        member.replace(148, 8, "        ");
        for (const char byte : member.substr(0, 512)) sum += static_cast<unsigned char>(byte);
        char digits[8];
        std::snprintf(digits, sizeof digits, "%06o", sum);
        member.replace(148, 7, digits, 7);
        return with_neff_header({}, member);
    };
    expect_corrupt("member sg00/def.json", with_size("777777777777"));
    expect_corrupt("more than the", with_size("10000000000 "));
    expect_corrupt("middle of a member", with_size("00000777777 "));
    expect_corrupt("no size", with_size("zzzzzzzzzzzz"));
    std::string damaged = with_size("00000000012 ");
    damaged[1024 + 3] ^= 1;
    expect_corrupt("checksum", damaged);
}

TEST(Neff, ThatUnpacksWithoutEndIsRefusedEarly) {
    // A member of 1.5 GiB of zeros takes 1.5 MB; it is passed over, and a second of the kind is too much.
    std::string archive;
    standin::append_tar_member(archive, "zeros", "");
    std::string header = archive.substr(0, 512);
    header.replace(124, 12, "14000000000 ");
    unsigned sum = 0;
    header.replace(148, 8, "        ");
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    header.replace(148, 7, digits, 7);
    const std::string zeros = gzip(std::string(size_t{64} << 20, '\0'));
    std::string packed;
    for (int member = 0; member < 2; ++member) {
        packed += gzip(header);
        for (int piece = 0; piece < 24; ++piece) packed += zeros;
    }
    expect_corrupt("unpacks to more than", with_neff_header({}, packed));
}

}  // namespace
}  // namespace gemmatrace::neuron
