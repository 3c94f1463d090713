# How a room becomes a library and its tests a program: flags that every target shares.

add_library(gemmatrace_flags INTERFACE)
# -ffp-contract=off: bit stability is a promise, so fused steps are written as such (docs/architecture.md).
target_compile_options(gemmatrace_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
target_include_directories(gemmatrace_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(gemmatrace_flags INTERFACE Threads::Threads fmt::fmt nlohmann_json::nlohmann_json)
if(GEMMATRACE_SANITIZE)
    target_compile_options(gemmatrace_flags INTERFACE -fsanitize=${GEMMATRACE_SANITIZE} -fno-omit-frame-pointer
                                                      -fno-sanitize-recover=all)
    target_link_options(gemmatrace_flags INTERFACE -fsanitize=${GEMMATRACE_SANITIZE})
endif()
if(GEMMATRACE_FUZZ)
    target_compile_options(gemmatrace_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                      -fno-sanitize-recover=all)
    target_link_options(gemmatrace_flags INTERFACE -fsanitize=address,undefined)
endif()

# gemmatrace_room(NAME [ROOM...]): all sources of src/NAME as a library that may use the rooms named after it.
function(gemmatrace_room name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
    add_library(gemmatrace_${name} STATIC ${sources})
    target_link_libraries(gemmatrace_${name} PUBLIC gemmatrace_flags)
    foreach(room ${ARGN})
        target_link_libraries(gemmatrace_${name} PUBLIC gemmatrace_${room})
    endforeach()
endfunction()

# gemmatrace_room_tests(NAME): all *_test.cpp of tests/NAME as one program, each case a ctest of its own.
function(gemmatrace_room_tests name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp)
    if(NOT sources)
        return()
    endif()
    add_executable(${name}_tests ${sources})
    target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${name}_tests PRIVATE gemmatrace_${name} GTest::gtest_main GTest::gmock)
    target_compile_definitions(${name}_tests PRIVATE GEMMATRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
