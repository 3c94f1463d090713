# Makes one HTML document of src/server/page and embeds it in C++. Included, it defines gemmatrace_embed_page(TARGET);
# run as a script, cmake -D PAGE_OUTPUT=FOLDER -P embed_page.cmake, it writes page.cpp, page.html and page_policy.txt.
#
# The sources are ES modules that also run as they are (tests/page). In the document they are one module, each after
# those it imports from: imports and the word export fall away, so names must be unique among all files, and an import
# must be on one line.

get_filename_component(page_folder ${CMAKE_CURRENT_LIST_DIR}/../src/server/page ABSOLUTE)
set(page_script ${CMAKE_CURRENT_LIST_FILE})
set(page_styles style.css messages.css)
set(page_modules dom.js feedback.js browser_storage.js event_stream.js api.js settings.js conversation.js store.js
                 inline_markdown.js markdown.js markdown_view.js message_view.js transcript.js composer.js
                 conversation_list.js dialogs.js appearance.js chat.js main.js)

# gemmatrace_embed_page(TARGET): adds the page to TARGET; made again whenever a source of it changes.
function(gemmatrace_embed_page target)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/page)
    set(sources ${page_styles} ${page_modules} index.html)
    list(TRANSFORM sources PREPEND ${page_folder}/)
    add_custom_command(OUTPUT ${output}/page.cpp BYPRODUCTS ${output}/page.html ${output}/page_policy.txt
                       COMMAND ${CMAKE_COMMAND} -D PAGE_OUTPUT=${output} -P ${page_script}
                       DEPENDS ${sources} ${page_script} COMMENT "Embedding the chat page" VERBATIM)
    target_sources(${target} PRIVATE ${output}/page.cpp)
endfunction()

# The bytes written as `hex` in base64.
function(page_base64 hex result)
    set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(LENGTH "${hex}" digits)
    set(text "")
    foreach(start RANGE 0 ${digits} 6)
        string(SUBSTRING "${hex}" ${start} 6 group)  # three bytes, or what is left
        string(LENGTH "${group}" length)
        if(length EQUAL 0)
            break()
        endif()
        string(SUBSTRING "${group}000000" 0 6 group)
        math(EXPR characters "${length} / 2 + 1")
        foreach(index RANGE 1 4)
            if(index GREATER characters)
                string(APPEND text "=")
            else()
                math(EXPR letter "(0x${group} >> (24 - 6 * ${index})) & 63")
                string(SUBSTRING "${alphabet}" ${letter} 1 letter)
                string(APPEND text "${letter}")
            endif()
        endforeach()
    endforeach()
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The files of the list, joined; indentation, blank lines and lines that are only a comment are left out. So no string
# of the sources may go over several lines.
function(page_join files result)
    set(text "\n")
    foreach(file ${files})
        file(READ ${page_folder}/${file} content)
        string(APPEND text "${content}")
    endforeach()
    string(REGEX REPLACE "\n +" "\n" text "${text}")
    string(REGEX REPLACE "\n(//|/\\*)[^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The source expression that hashes `text` for a policy.
function(page_hash text result)
    string(SHA256 hex "${text}")
    page_base64(${hex} hash)
    set(${result} "'sha256-${hash}'" PARENT_SCOPE)
endfunction()

# `text` as a C++ literal, cut before each class: a compiler need not take a piece of more than 64 KiB.
function(page_literal text result)
    if("${text}" MATCHES "\\)page\"")
        message(FATAL_ERROR "the page holds the end of the literal that it is embedded in")
    endif()
    string(REGEX REPLACE "\n(class) " "\n)page\"\n    R\"page(\\1 " text "${text}")
    set(${result} "\n    R\"page(${text})page\"" PARENT_SCOPE)
endfunction()

function(page_write)
    page_join("${page_styles}" style)
    page_join("${page_modules}" script)
    string(REGEX REPLACE "\nimport [^\n]*" "" script "${script}")
    string(REGEX REPLACE "\nexport " "\n" script "${script}")
    if("${style}${script}" MATCHES "</|<!--")
        message(FATAL_ERROR "style and script of the page may not hold an end tag or the start of a comment")
    endif()
    file(READ ${page_folder}/index.html html)
    string(REPLACE "<style></style>" "<style>${style}</style>" html "${html}")
    string(REPLACE "<script type=\"module\"></script>" "<script type=\"module\">${script}</script>" html "${html}")

    page_hash("${style}" style_hash)
    page_hash("${script}" script_hash)
    string(CONCAT policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; connect-src 'self'; "
                         "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                         "require-trusted-types-for 'script'; trusted-types 'none'")
    page_literal("${html}" html_literal)
    page_literal("${policy}" policy_literal)
    file(WRITE ${PAGE_OUTPUT}/page.html "${html}")
    file(WRITE ${PAGE_OUTPUT}/page_policy.txt "${policy}")
    file(WRITE ${PAGE_OUTPUT}/page.cpp "// The chat page, made by cmake/embed_page.cmake; not to be edited.
#include \"server/page.h\"

namespace gemmatrace::server {

std::string_view page_html() {
    static constexpr std::string_view kPageHtml =${html_literal};
    return kPageHtml;
}

std::string_view page_content_security_policy() {
    static constexpr std::string_view kPagePolicy =${policy_literal};
    return kPagePolicy;
}

}  // namespace gemmatrace::server
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL page_script)
    page_write()
endif()
