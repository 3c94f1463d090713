// Mapped files and whole-file reads, and what they say when they cannot.
#include "base/file_mapping.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using testing::write_bytes;

std::string text_of(const FileMapping& mapping) {
    return {reinterpret_cast<const char*>(mapping.bytes().data()), mapping.bytes().size()};
}

TEST(FileMapping, ShowsTheBytesOfTheFile) {
    const TemporaryFolder folder;
    write_bytes(folder / "a", std::string("x\0y", 3));
    const FileMapping mapping(folder / "a");
    EXPECT_EQ(text_of(mapping), std::string("x\0y", 3));
    EXPECT_EQ(mapping.path(), folder / "a");
}

TEST(FileMapping, AnEmptyFileHasNoBytes) {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "");
    EXPECT_TRUE(FileMapping(folder / "a").bytes().empty());
}

TEST(FileMapping, MovingKeepsTheAddress) {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "first");
    write_bytes(folder / "b", "second");
    FileMapping first(folder / "a");
    const std::byte* address = first.bytes().data();
    FileMapping moved = std::move(first);
    EXPECT_EQ(moved.bytes().data(), address);
    moved = FileMapping(folder / "b");
    EXPECT_EQ(text_of(moved), "second");
}

TEST(FileMapping, StaysReadableWhenTheNameIsGone) {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "text");
    const FileMapping mapping(folder / "a");
    std::filesystem::remove(folder / "a");
    EXPECT_EQ(text_of(mapping), "text");
}

size_t resident_file_pages() {
    std::ifstream file("/proc/self/statm");
    size_t size = 0, resident = 0, shared = 0;
    file >> size >> resident >> shared;
    return shared;
}

// Fault F053: what was streamed away must not stay in memory.
TEST(FileMapping, F053_WhatIsReleasedLeavesTheResidentSetAndStaysReadable) {
    const TemporaryFolder folder;
    std::string text(size_t{8} << 20, '\0');
    for (size_t at = 0; at < text.size(); at += 64) text[at] = static_cast<char>(at >> 8);
    write_bytes(folder / "a", text);
    const FileMapping mapping(folder / "a");
    EXPECT_TRUE(text_of(mapping) == text);
    const size_t before = resident_file_pages();
    mapping.release(mapping.bytes().subspan(100, text.size() - 200));
    EXPECT_LT(resident_file_pages() + 1900, before) << "2,046 pages of 4 KiB";
    mapping.release(mapping.bytes().subspan(100, 50));
    EXPECT_TRUE(text_of(mapping) == text);
}

TEST(FileMapping, MissingFilesAndFoldersAreNotFound) {
    const TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"file=" + (folder / "a").string()}, [&] { FileMapping(folder / "a"); });
    expect_error(ErrorCode::not_found, {"not a regular file"}, [&] { FileMapping(folder.path()); });
    expect_error(ErrorCode::not_found, {"not a regular file"}, [&] { read_file(folder.path(), 10); });
    expect_error(ErrorCode::not_found, {}, [&] { read_file(folder / "a", 10); });
}

TEST(ReadFile, ReadsTheWholeFileUpToItsLimit) {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "12345");
    EXPECT_EQ(read_file(folder / "a", 5), "12345");
    expect_error(ErrorCode::corrupt, {"5 bytes", "4 allowed"}, [&] { read_file(folder / "a", 4); });
}

}  // namespace
}  // namespace gemmatrace
