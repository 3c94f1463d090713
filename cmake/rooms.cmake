# How a room becomes a library and its tests a program: flags that every target shares.

add_library(gemmatrace_flags INTERFACE)
# -ffp-contract=off: bit stability is a promise, so fused steps are written as such (docs/architecture.md).
target_compile_options(gemmatrace_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc 12 sees uninitialised memory in std::variant and overlaps in std::string that are not there.
    target_compile_options(gemmatrace_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
target_include_directories(gemmatrace_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(gemmatrace_flags INTERFACE Threads::Threads fmt::fmt nlohmann_json::nlohmann_json)
if(GEMMATRACE_SANITIZE)
    target_compile_options(gemmatrace_flags INTERFACE -fsanitize=${GEMMATRACE_SANITIZE} -fno-omit-frame-pointer
                                                      -fno-sanitize-recover=all)
    if(GEMMATRACE_SANITIZE MATCHES "undefined")  # these cost much and find what the address sanitizer finds too
        target_compile_options(gemmatrace_flags INTERFACE -fno-sanitize=null,vptr,object-size,pointer-overflow)
    endif()
    target_link_options(gemmatrace_flags INTERFACE -fsanitize=${GEMMATRACE_SANITIZE})
endif()
if(GEMMATRACE_FUZZ)
    target_compile_options(gemmatrace_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                      -fno-sanitize-recover=all)
    target_link_options(gemmatrace_flags INTERFACE -fsanitize=address,undefined)
endif()

# gemmatrace_precompile(TARGET): the headers that cost most to read are read once for all targets of the same flags.
set(costly_headers <filesystem> <functional> <map> <memory> <string> <variant> <vector> <fmt/format.h>
                   <nlohmann/json.hpp>)
add_library(gemmatrace_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
target_link_libraries(gemmatrace_headers PRIVATE gemmatrace_flags)
target_precompile_headers(gemmatrace_headers PRIVATE ${costly_headers})
function(gemmatrace_precompile target)
    target_precompile_headers(${target} REUSE_FROM gemmatrace_headers)
endfunction()

# gemmatrace_unify(TARGET): several sources are compiled as one, since most of a build is reading the same headers again;
# the names in a room's anonymous namespaces are different ones for this. Not in the debug preset: it rebuilds quickly.
function(gemmatrace_unify target)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${GEMMATRACE_UNIFY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# gemmatrace_room(NAME [ROOM...]): all sources of src/NAME as a library that may use the rooms named after it.
function(gemmatrace_room name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp ${CMAKE_SOURCE_DIR}/src/${name}/*/*.cpp)
    list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
    add_library(gemmatrace_${name} STATIC ${sources})
    gemmatrace_unify(gemmatrace_${name})
    target_link_libraries(gemmatrace_${name} PUBLIC gemmatrace_flags)
    foreach(room ${ARGN})
        target_link_libraries(gemmatrace_${name} PUBLIC gemmatrace_${room})
    endforeach()
endfunction()

# gemmatrace_spare_tests(TARGET): under the address sanitizer it is the program that is looked at, not the tests' own code,
# which would take as long to compile.
function(gemmatrace_spare_tests target)
    if(GEMMATRACE_SANITIZE MATCHES "address")
        target_compile_options(${target} PRIVATE -fno-sanitize=all)
    endif()
endfunction()

# gemmatrace_test_flags(TARGET): test code is compiled quickly; what it tests is optimised as always.
if(GEMMATRACE_TESTS)
    find_package(GTest REQUIRED)
    add_library(gemmatrace_test_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
    target_link_libraries(gemmatrace_test_headers PRIVATE gemmatrace_flags GTest::gtest)
    target_compile_options(gemmatrace_test_headers PRIVATE -O0)
    gemmatrace_spare_tests(gemmatrace_test_headers)
    target_precompile_headers(gemmatrace_test_headers PRIVATE ${costly_headers} <gtest/gtest.h>)
endif()
function(gemmatrace_test_flags target)
    gemmatrace_unify(${target})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE GTest::gtest_main GTest::gmock)
    target_compile_definitions(${target} PRIVATE GEMMATRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_compile_options(${target} PRIVATE -O0)
    gemmatrace_spare_tests(${target})
    target_precompile_headers(${target} REUSE_FROM gemmatrace_test_headers)
endfunction()

# gemmatrace_room_tests(NAME): all *_test.cpp of tests/NAME as one program, each case a ctest of its own.
function(gemmatrace_room_tests name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp ${CMAKE_SOURCE_DIR}/tests/${name}/*/*_test.cpp)
    if(NOT sources)
        return()
    endif()
    add_executable(${name}_tests ${sources})
    gemmatrace_test_flags(${name}_tests)
    target_link_libraries(${name}_tests PRIVATE gemmatrace_${name})
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
