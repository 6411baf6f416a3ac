# kova_warnings: the warnings that all of our own code must pass under gcc and clang. Third-party sources
# (hiredis, llhttp) are not linked with it.
add_library(kova_warnings INTERFACE)

target_compile_options(kova_warnings INTERFACE
  -Wall -Wextra               # the usual mistakes
  -Wpedantic                  # stay within ISO C11 and what both compilers agree on
  -Wshadow                    # a name that hides another is read wrongly sooner or later
  -Wconversion                # amounts and times are 64-bit: a silent truncation mints or loses permits
  -Wsign-conversion           # a length of -1 must not become a huge size_t
  -Wstrict-prototypes         # `f()` would take any arguments
  -Wmissing-prototypes        # a function is either static or declared in a header
  -Wold-style-definition
  -Wvla                       # stack use stays bounded, whatever the input
  -Wformat=2                  # format strings are constants
  -Wundef                     # a misspelt macro in #if is not 0
  -Wwrite-strings             # string literals are const
  -Wpointer-arith
  -Wimplicit-fallthrough      # falling through a case is said aloud
)

option(KOVA_WERROR "Treat warnings as errors (CI does)" OFF)
if(KOVA_WERROR)
  target_compile_options(kova_warnings INTERFACE -Werror)
endif()
