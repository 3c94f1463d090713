// The chat page served at /, one HTML document embedded in the binary when it is built (cmake/embed_page.cmake).
#pragma once

#include <string_view>

namespace gemmatrace::server {

// The whole page, in UTF-8 with Unix line ends: style and script are inside, and it asks for nothing but the API of the
// server it came from. To be sent as text/html; charset=utf-8, byte for byte: the policy below holds hashes of its
// parts.
std::string_view page_html();

// The value of the header Content-Security-Policy that belongs to page_html(): only the page's own style and script,
// only requests to its own server, no frames around it, and text never taken for markup.
std::string_view page_content_security_policy();

}  // namespace gemmatrace::server
