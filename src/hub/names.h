// Names as a hub uses them - repositories, revisions, files - and which of them are safe to become paths and addresses.
#pragma once

#include <string>
#include <string_view>

namespace gemmatrace::hub {

// Whether the text has the form of a repository's name, "org/name" or "name": letters, digits, '.', '_' and '-', at
// most 96 a part, and neither "." nor "..".
bool is_repository_name(std::string_view text);
// Throws Error(bad_request) when it is not.
void check_repository_name(std::string_view text);

// A branch, tag or commit: the characters git allows in a reference, without what could leave a folder. Throws
// Error(bad_request).
void check_revision(std::string_view revision);

// Whether the text is a commit: 40 (or 64) lower-case hexadecimal digits.
bool is_commit(std::string_view text);

// Whether the text may name a stored blob: up to 128 letters, digits, '-', '_' and '.', not beginning with '.'.
bool is_blob_name(std::string_view text);

// Whether a file of a repository belongs to a checkpoint as gemmatrace reads it: configuration, tokenizer, template and
// safetensors in the repository's root. Weights in other formats, and files in folders, do not.
bool is_checkpoint_file(std::string_view name);

// Whether a path within a repository is one that a repository can hold: relative, every part a name and none of them
// ".." or ".", no control characters, valid UTF-8.
bool is_honest_path(std::string_view path);

// Whether a name may become a file in a folder of ours: no separators, no control characters, neither "." nor "..", at
// most 200 bytes of valid UTF-8.
bool is_safe_file_name(std::string_view name);

// "models--org--name", the folder of a repository in the cache that Hugging Face's libraries share.
std::string cache_folder_name(std::string_view repository);

// The text as one part of an address: everything but unreserved characters percent-encoded.
std::string url_part(std::string_view text);
// A repository's name as a part of an address: its one '/' stays.
std::string url_repository(std::string_view repository);

}  // namespace gemmatrace::hub
