# KOVA_SANITIZE: none | address (ASan and UBSan) | thread (TSan) | fuzzer (clang: libFuzzer, ASan and UBSan).
# Applied to everything that is compiled here, third-party sources included: ASan and TSan see only what they instrument.
set(KOVA_SANITIZE "none" CACHE STRING "none, address, thread or fuzzer")
set_property(CACHE KOVA_SANITIZE PROPERTY STRINGS none address thread fuzzer)

# What a sanitizer's report looks like. Criterion 2.4.1 lets a leaking test pass, so that CTest looks for it too.
set(KOVA_SANITIZER_REPORT
  "ERROR: (Leak|Address|Thread|Undefined)[A-Za-z]*Sanitizer;WARNING: ThreadSanitizer;runtime error:")

# Reports name functions and lines: what debuggers need beyond that (-g) would take a fifth of the compiler's time.
set(common_flags -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
if(KOVA_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined ${common_flags})
  add_link_options(-fsanitize=address,undefined)
elseif(KOVA_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread ${common_flags})
  add_link_options(-fsanitize=thread)
  # What every program is given of calls that ThreadSanitizer does not watch.
  set(KOVA_TSAN_SOURCES ${PROJECT_SOURCE_DIR}/tests/support/tsan_close.c ${PROJECT_SOURCE_DIR}/tests/support/tsan_threads.c)
elseif(KOVA_SANITIZE STREQUAL "fuzzer")
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KOVA_SANITIZE=fuzzer needs clang (CC=clang) and libclang-rt")
  endif()
  # fuzzer-no-link: coverage in every library; only the fuzz targets link libFuzzer's main().
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined ${common_flags})
  add_link_options(-fsanitize=address,undefined)
elseif(NOT KOVA_SANITIZE STREQUAL "none")
  message(FATAL_ERROR "KOVA_SANITIZE must be none, address, thread or fuzzer, not '${KOVA_SANITIZE}'")
endif()
