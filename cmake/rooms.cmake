# How a room becomes a library and its tests a program. All of it can be made twice in one build: as it is, and with the
# sanitizers in targets whose names end in _asan, so that the tests' own code is compiled once for both. `variant` is
# the end of the names while src/ is read: empty or _asan.

# What all code is held to. -ffp-contract=off: bit stability is a promise, so fused steps are written as such
# (docs/architecture.md).
set(common_options -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc 12 sees uninitialised memory in std::variant and overlaps in std::string that are not there.
    list(APPEND common_options -Wno-maybe-uninitialized -Wno-restrict)
endif()

# gemmatrace_flags_of(VARIANT SANITIZERS): the flags and the precompiled headers that a variant's targets share.
set(costly_headers <filesystem> <functional> <map> <memory> <string> <variant> <vector> <fmt/format.h>
                   <nlohmann/json.hpp>)
function(gemmatrace_flags_of variant sanitizers)
    set(flags gemmatrace_flags${variant})
    add_library(${flags} INTERFACE)
    target_compile_options(${flags} INTERFACE ${common_options})
    target_include_directories(${flags} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${flags} INTERFACE Threads::Threads fmt::fmt nlohmann_json::nlohmann_json)
    if(sanitizers)
        target_compile_options(${flags} INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all -g1)
        if(sanitizers MATCHES "undefined")  # these cost much and find what the address sanitizer finds too
            target_compile_options(${flags} INTERFACE -fno-sanitize=null,vptr,object-size,pointer-overflow)
        endif()
        target_link_options(${flags} INTERFACE -fsanitize=${sanitizers})
    endif()
    if(GEMMATRACE_FUZZ)
        target_compile_options(${flags} INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                  -fno-sanitize-recover=all)
        target_link_options(${flags} INTERFACE -fsanitize=address,undefined)
    endif()

    add_library(gemmatrace_headers${variant} OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
    target_link_libraries(gemmatrace_headers${variant} PRIVATE ${flags})
    if(sanitizers)
        target_compile_options(gemmatrace_headers${variant} PRIVATE -O0)
    endif()
    target_precompile_headers(gemmatrace_headers${variant} PRIVATE ${costly_headers})
endfunction()

# gemmatrace_precompile(TARGET VARIANT): the headers that cost most to read are read once.
function(gemmatrace_precompile target variant)
    target_precompile_headers(${target} REUSE_FROM gemmatrace_headers${variant})
endfunction()

# gemmatrace_unify(TARGET): several sources are compiled as one, since most of a build is reading the same headers again;
# the names in a room's anonymous namespaces are different ones for this. Not in the debug preset: it rebuilds quickly.
function(gemmatrace_unify target)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${GEMMATRACE_UNIFY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# gemmatrace_room(NAME [ROOM...]): all sources of src/NAME as a library that may use the rooms named after it.
# Sanitized rooms are compiled quickly, but for those that have a level of their own in sanitized_level_NAME.
function(gemmatrace_room name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp ${CMAKE_SOURCE_DIR}/src/${name}/*/*.cpp)
    list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
    set(room gemmatrace_${name}${variant})
    add_library(${room} STATIC ${sources})
    gemmatrace_unify(${room})
    target_link_libraries(${room} PUBLIC gemmatrace_flags${variant})
    foreach(used ${ARGN})
        target_link_libraries(${room} PUBLIC gemmatrace_${used}${variant})
    endforeach()
    if(NOT sanitizers)
        return()
    elseif(sanitized_level_${name})
        target_compile_options(${room} PRIVATE ${sanitized_level_${name}})
    else()
        target_compile_options(${room} PRIVATE -O0)
    endif()
endfunction()

# Test code is compiled quickly and never sanitized for addresses: it is the program that is looked at.
if(GEMMATRACE_TESTS)
    find_package(GTest REQUIRED)
    add_library(gemmatrace_test_flags INTERFACE)
    target_include_directories(gemmatrace_test_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(gemmatrace_test_flags INTERFACE Threads::Threads fmt::fmt nlohmann_json::nlohmann_json
                                                          GTest::gtest_main GTest::gmock)
    target_compile_options(gemmatrace_test_flags INTERFACE ${common_options} -O0)
    target_compile_definitions(gemmatrace_test_flags INTERFACE GEMMATRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    if(GEMMATRACE_SANITIZE STREQUAL "thread")
        target_compile_options(gemmatrace_test_flags INTERFACE -fsanitize=thread)
    endif()
    add_library(gemmatrace_test_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
    target_link_libraries(gemmatrace_test_headers PRIVATE gemmatrace_test_flags)
    target_precompile_headers(gemmatrace_test_headers PRIVATE ${costly_headers} <gtest/gtest.h>)
endif()

# gemmatrace_test_program(NAME SOURCE... ROOM...): a program of test code, NAME, and with sanitizers NAME_asan.
function(gemmatrace_test_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;ROOMS" ${ARGN})
    add_library(${name}_objects OBJECT ${arg_SOURCES})
    gemmatrace_unify(${name}_objects)
    target_link_libraries(${name}_objects PRIVATE gemmatrace_test_flags)
    target_precompile_headers(${name}_objects REUSE_FROM gemmatrace_test_headers)
    foreach(variant IN LISTS variants)
        string(REPLACE "plain" "" variant ${variant})
        add_executable(${name}${variant} $<TARGET_OBJECTS:${name}_objects>)
        target_link_libraries(${name}${variant} PRIVATE GTest::gtest_main GTest::gmock)
        foreach(room ${arg_ROOMS})
            target_link_libraries(${name}${variant} PRIVATE gemmatrace_${room}${variant})
        endforeach()
    endforeach()
    if(TARGET ${name}_asan)
        set_target_properties(${name}_asan PROPERTIES EXCLUDE_FROM_ALL ON)
        add_dependencies(asan ${name}_asan)
    endif()
endfunction()

# gemmatrace_discover(NAME PREFIX SECONDS [FILTER]): the cases of a test program, each a test of ctest of its own; of the
# sanitized one those that FILTER leaves, and only in the whole suite.
function(gemmatrace_discover name prefix seconds)
    gtest_discover_tests(${name} TEST_PREFIX ${prefix}/ DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${seconds})
    if(TARGET ${name}_asan)
        set(filter "")
        if(ARGN)
            set(filter TEST_FILTER "${ARGN}")
        endif()
        gtest_discover_tests(${name}_asan TEST_PREFIX asan/${prefix}/ ${filter} DISCOVERY_TIMEOUT 60
                             PROPERTIES TIMEOUT ${seconds} LABELS full)
    endif()
endfunction()

# gemmatrace_room_tests(NAME [FILTER text] [ROOMS room...]): all *_test.cpp of tests/NAME as one program, linked with
# other rooms too if it compares with them.
function(gemmatrace_room_tests name)
    cmake_parse_arguments(arg "" "FILTER" "ROOMS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp
                                        ${CMAKE_SOURCE_DIR}/tests/${name}/*/*_test.cpp)
    if(sources)
        gemmatrace_test_program(${name}_tests SOURCES ${sources} ROOMS ${name} ${arg_ROOMS})
        gemmatrace_discover(${name}_tests ${name} 300 ${arg_FILTER})
    endif()
endfunction()

# gemmatrace_program_test(NAME SCRIPT [LABEL...]): a Python test of the program from outside, and of the sanitized one
# unless it has a label.
find_program(PYTHON3 python3)
function(gemmatrace_program_test name script)
    if(NOT PYTHON3)
        return()
    endif()
    foreach(variant IN LISTS variants)
        string(REPLACE "plain" "" variant ${variant})
        string(REPLACE "_asan" "asan/" prefix "${variant}")
        if(variant AND ARGN)
            continue()
        endif()
        add_test(NAME ${prefix}${name} COMMAND ${PYTHON3} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script})
        set(environment "GEMMATRACE_BINARY=$<TARGET_FILE:gemmatrace${variant}>;GEMMATRACE_ROOT=${CMAKE_SOURCE_DIR}")
        if(variant)
            list(APPEND environment GEMMATRACE_SANITIZED=1)  # what takes minutes so may be left out
        endif()
        set_tests_properties(${prefix}${name} PROPERTIES TIMEOUT 900 ENVIRONMENT "${environment}")
        if(variant OR ARGN)
            set_tests_properties(${prefix}${name} PROPERTIES LABELS full)
        endif()
    endforeach()
endfunction()
