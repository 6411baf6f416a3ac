# One line a test:
#   add_unit_test(FILE)    tests/unit/test_X.c: pure, a Criterion program (or one with a main() of its own)
#   add_sim_test(FILE)     tests/sim/test_X.c: the simulated world in virtual time, seeded
#   add_io_test(FILE)      tests/io/test_X.c: sockets, files, a redis-server of its own
#   add_lua_test(FILE)     tests/lua/test_X.c or .py: the scripts in a real Redis
#   add_system_test(FILE)  tests/system/test_X.py: the built programs, from outside
#   add_fuzz_replay(FILE)  tests/fuzz/fuzz_X.c: its corpus (tests/fuzz/corpus/X/) replayed; with KOVA_SANITIZE=fuzzer a fuzzer
# A test that exits 77 was skipped and has printed a line `SKIPPED: why`.
#
# What runs beside what. PROCESSORS counts sixths of a processor, of which ctest -j gives out six for each (scripts/lib.sh).
# - A test that only computes (unit, sim, lua, fuzz) gives way to all others (nice): such tests use what the others, which
#   wait for most of their time, leave.
# - `Mostly waits` in a test's file: three such tests share a processor; under ThreadSanitizer, which makes programs several
#   times slower, two do. (AddressSanitizer's programs are slower, too, but most of the time is Redis's, Kafka's and Python's.)
# - `Bears others`: it is busier, and no time that it measures is short. Two thirds of a processor; under ThreadSanitizer a
#   whole one, as a C program with sockets has.
# - Any other Python test measures times from outside: on a machine of two processors only what gives way is beside it.
# ctest begins with what costs most: those that are alone, then what takes long (KOVA_LONG), then what waits, then the rest.
set(KOVA_ALONE 10)
set(KOVA_COMPUTES 2) # the least: one is beside what is alone
set(KOVA_GIVES_WAY nice -n 10)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
pkg_check_modules(CRITERION REQUIRED IMPORTED_TARGET criterion)

set(KOVA_TEST_ENVIRONMENT
  "KOVA_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "KOVA_BUILD_DIR=${PROJECT_BINARY_DIR}"
  "KOVA_SANITIZE=${KOVA_SANITIZE}"
  "PYTHONDONTWRITEBYTECODE=1"
  "PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/system"
  "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")

function(kova_test_properties name label timeout)
  if(NOT KOVA_SANITIZE STREQUAL "none")
    math(EXPR timeout "${timeout} * 3")
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${label}"
    TIMEOUT ${timeout}
    SKIP_RETURN_CODE 77
    ENVIRONMENT "${KOVA_TEST_ENVIRONMENT}"
    FAIL_REGULAR_EXPRESSION "${KOVA_SANITIZER_REPORT}")
endfunction()

# Longer than half a minute, or than ten seconds of computing.
set(KOVA_LONG
  sim/globe sim/gossip sim/region lua/lease_intervals
  system/chaos system/consumers system/coordinator system/coordinators system/dashboard system/dashboards system/durability
  system/events_kafka system/examples
  system/examples_scrapy system/failover system/gossip system/grants
  system/grants_killed system/grants_slept system/global
  system/kafka system/kafka_tls system/kovactl system/moving system/package system/regions system/site system/skew system/turns_over_agents
  system/usage_kafka system/waiting system/world)

function(kova_test_takes name path processors)
  file(STRINGS ${path} waits REGEX "Mostly waits" LIMIT_COUNT 1)
  file(STRINGS ${path} bears REGEX "Bears others" LIMIT_COUNT 1)
  set(cost 100)
  if(waits AND NOT KOVA_SANITIZE STREQUAL "thread")
    set(processors 2)
  elseif(waits)
    set(processors 3)
  elseif(bears AND NOT KOVA_SANITIZE STREQUAL "thread")
    set(processors 4)
  elseif(bears)
    set(processors 6)
  elseif(processors EQUAL ${KOVA_ALONE})
    set(cost 1000)
  elseif(processors EQUAL ${KOVA_COMPUTES})
    set(cost 0)
  endif()
  if(name IN_LIST KOVA_LONG)
    math(EXPR cost "${cost} + 500")
  endif()
  set_tests_properties(${name} PROPERTIES PROCESSORS ${processors} COST ${cost})
endfunction()

# Under ThreadSanitizer a runner of our own stands for Criterion's (tests/support/plain_criterion says why), and only those
# tests are built that have something to watch: threads, or an event loop (libuv resolves names in threads).
function(kova_c_test label timeout path)
  cmake_path(GET path STEM stem)
  string(REGEX REPLACE "^test_" "" stem ${stem})
  set(name ${label}_${stem})
  file(STRINGS ${path} uses_criterion REGEX "#include <criterion/")
  file(STRINGS ${path} uses_threads REGEX "#include <(pthread|uv)\\.h>")
  if(KOVA_SANITIZE STREQUAL "thread" AND NOT label STREQUAL "io" AND NOT uses_threads)
    return()
  endif()
  add_executable(${name} ${path})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_link_libraries(${name} PRIVATE kova_test_support kova_all kova_warnings)
  if(KOVA_SANITIZE STREQUAL "thread")
    target_sources(${name} PRIVATE ${KOVA_TSAN_SOURCES})
  endif()
  if(uses_criterion AND KOVA_SANITIZE STREQUAL "thread")
    target_include_directories(${name} SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/plain_criterion)
  elseif(uses_criterion)
    target_link_libraries(${name} PRIVATE PkgConfig::CRITERION)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(label STREQUAL "io")
    add_test(NAME ${label}/${stem} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    kova_test_takes(${label}/${stem} ${path} 6)
  else()
    add_test(NAME ${label}/${stem} COMMAND ${KOVA_GIVES_WAY} $<TARGET_FILE:${name}> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    kova_test_takes(${label}/${stem} ${path} ${KOVA_COMPUTES})
  endif()
  kova_test_properties(${label}/${stem} ${label} ${timeout})
endfunction()

# A file that says `Runs no program of ours` tests what the tests stand on: a sanitizer has nothing to watch there.
function(kova_python_test label timeout path)
  cmake_path(GET path STEM stem)
  string(REGEX REPLACE "^test_" "" stem ${stem})
  file(STRINGS ${path} unsanitized REGEX "Runs no program of ours" LIMIT_COUNT 1)
  if(unsanitized AND NOT KOVA_SANITIZE STREQUAL "none")
    return()
  endif()
  add_test(NAME ${label}/${stem} COMMAND Python3::Interpreter ${path} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  kova_test_properties(${label}/${stem} ${label} ${timeout})
  kova_test_takes(${label}/${stem} ${path} ${KOVA_ALONE})
endfunction()

# Seconds, most of which what gives way may spend doing so.
function(add_unit_test path)
  kova_c_test(unit 300 ${path})
endfunction()

function(add_sim_test path)
  kova_c_test(sim 600 ${path})
  cmake_path(GET path STEM stem)
  string(REGEX REPLACE "^test_" "sim_" target ${stem})
  if(TARGET ${target})
    target_link_libraries(${target} PRIVATE kova_sim)
  endif()
endfunction()

function(add_io_test path)
  kova_c_test(io 120 ${path})
endfunction()

function(add_lua_test path)
  if(path MATCHES "\\.py$")
    kova_python_test(lua 300 ${path})
  else()
    kova_c_test(lua 600 ${path})
  endif()
endfunction()

function(add_system_test path)
  kova_python_test(system 600 ${path})
endfunction()

function(add_fuzz_replay path)
  if(KOVA_SANITIZE STREQUAL "thread") # codecs have no threads
    return()
  endif()
  cmake_path(GET path STEM stem)
  string(REGEX REPLACE "^fuzz_" "" stem ${stem})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${stem})
  add_executable(fuzz_${stem} ${path})
  target_include_directories(fuzz_${stem} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_link_libraries(fuzz_${stem} PRIVATE kova_all kova_warnings)
  set_target_properties(fuzz_${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  if(KOVA_SANITIZE STREQUAL "fuzzer")
    target_link_options(fuzz_${stem} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz/${stem} COMMAND fuzz_${stem} -runs=0 ${corpus})
  else()
    target_sources(fuzz_${stem} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay.c)
    add_test(NAME fuzz/${stem} COMMAND ${KOVA_GIVES_WAY} $<TARGET_FILE:fuzz_${stem}> ${corpus})
  endif()
  kova_test_properties(fuzz/${stem} fuzz 120)
endfunction()
