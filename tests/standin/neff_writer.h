// Writes NEFF files: a true header, and an archive with a list of variables and whatever members are given. Made for
// tests and for the stand-ins of compiler and runtime, which carry a program in one.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gemmatrace::standin {

// The member in which a stand-in NEFF carries the HLO proto that it was made of.
inline constexpr const char* kProgramMember = "standin/program.hlo.pb";

struct NeffVariable {
    std::string name;
    std::string type;  // "input", "output", "virtual", "tmp-buf", …
    uint64_t bytes = 0;
    uint64_t backing_variable_off = 0;  // of a virtual one
};

struct NeffContent {
    uint64_t version_major = 2;
    uint64_t version_minor = 0;
    uint64_t feature_bits = 0;
    uint32_t lnc_size = 1;
    std::string build_version = "2.23.6484.0+standin";
    std::string name = "standin.neff";
    bool is_compressed = true;
    std::vector<NeffVariable> variables;
    std::vector<std::pair<std::string, std::string>> members;  // beside kelf-0.json and sg00/def.json
};

inline void append_tar_member(std::string& archive, const std::string& name, const std::string& content) {
    char header[512] = {};
    if (name.size() > 99) throw std::length_error("a member's name is too long for this writer");
    std::memcpy(header, name.data(), name.size());
    std::snprintf(header + 100, 8, "%07o", 0644);
    std::snprintf(header + 108, 8, "%07o", 0);
    std::snprintf(header + 116, 8, "%07o", 0);
    std::snprintf(header + 124, 12, "%011llo", static_cast<unsigned long long>(content.size()));
    std::snprintf(header + 136, 12, "%011o", 0);
    std::memset(header + 148, ' ', 8);
    header[156] = '0';
    std::memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    std::snprintf(header + 148, 8, "%06o", sum);
    archive.append(header, sizeof header);
    archive += content;
    archive.append((512 - content.size() % 512) % 512, '\0');
}

// One gzip member.
inline std::string gzip(const std::string& bytes) {
    z_stream stream = {};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::runtime_error("zlib cannot start");
    }
    std::string packed(deflateBound(&stream, bytes.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    const int status = deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    if (status != Z_STREAM_END) throw std::runtime_error("zlib cannot compress");
    return packed;
}

inline std::string neff_archive(const NeffContent& content) {
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
    for (const NeffVariable& variable : content.variables) {
        auto& entry = variables[variable.name] = {{"type", variable.type}, {"size", variable.bytes}};
        if (variable.type == "virtual") entry["backing_variable_off"] = variable.backing_variable_off;
    }
    const nlohmann::ordered_json graph = {{"version", "1.0"}, {"nodes", {{{"name", "sg00"}, {"subgraph", 0}}}}};
    std::string archive;
    append_tar_member(archive, "kelf-0.json", graph.dump());
    append_tar_member(archive, "sg00/def.json", nlohmann::ordered_json{{"name", "sg00"}, {"var", variables}}.dump());
    for (const auto& [name, bytes] : content.members) append_tar_member(archive, name, bytes);
    archive.append(1024, '\0');
    return content.is_compressed ? gzip(archive) : archive;
}

// Puts a header before an archive's bytes, whatever they are.
inline std::string with_neff_header(const NeffContent& content, const std::string& archive) {
    std::string header(1024, '\0');
    const auto put = [&](size_t at, size_t bytes, uint64_t value) {
        for (size_t place = 0; place < bytes; ++place) header[at + place] = static_cast<char>(value >> (8 * place));
    };
    put(0, 8, 2);  // pkg_version
    put(8, 8, 1024);
    put(16, 8, archive.size());
    put(24, 8, content.version_major);
    put(32, 8, content.version_minor);
    header.replace(40, std::min<size_t>(content.build_version.size(), 127), content.build_version, 0, 127);
    put(168, 4, 1);  // num_tpb
    header.replace(220, std::min<size_t>(content.name.size(), 255), content.name, 0, 255);
    put(476, 4, 1);  // requested_tpb_count
    header[480] = 1;
    put(544, 8, content.feature_bits);
    put(552, 4, content.lnc_size);
    return header + archive;
}

inline std::string write_neff(const NeffContent& content) { return with_neff_header(content, neff_archive(content)); }

}  // namespace gemmatrace::standin
