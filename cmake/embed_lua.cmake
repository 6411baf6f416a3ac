# embed_lua(<target> <name> <piece.lua>...)
#
# Joins the pieces into one script and adds it to <target> as `const struct lua_script lua_<name>` (core/lua_script.h).
# Redis hashes the bytes that it receives, so they are hashed here, at build time, and embedded unchanged: the agent
# sends EVALSHA first and the body only on NOSCRIPT.
#
# The same file is run as a script by the build: cmake -D NAME=... -D PIECES=a;b -D OUTPUT=... -P embed_lua.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(hex "")
  foreach(piece IN LISTS PIECES)
    file(READ ${piece} bytes HEX)
    string(APPEND hex "${bytes}")
  endforeach()
  # A hash needs the bytes in a file: CMake's strings can't hold every byte, but a script is text.
  set(joined "")
  foreach(piece IN LISTS PIECES)
    file(READ ${piece} text)
    string(APPEND joined "${text}")
  endforeach()
  file(WRITE ${OUTPUT}.lua "${joined}")
  file(READ ${OUTPUT}.lua written HEX)
  if(NOT written STREQUAL hex)
    message(FATAL_ERROR "lua_${NAME}: the joined script is not its pieces: a byte that CMake can't copy")
  endif()
  file(SHA1 ${OUTPUT}.lua sha1)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n\t" bytes "${bytes}")
  file(WRITE ${OUTPUT}
    "/* Made of ${NAME}'s pieces in lua/ by cmake/embed_lua.cmake. */\n"
    "#include \"core/lua_script.h\"\n\n"
    "static const unsigned char body[] = {\n\t${bytes}0};\n\n"
    "const struct lua_script lua_${NAME} = {\"${NAME}\", (const char *)body, sizeof body - 1, \"${sha1}\"};\n")
  return()
endif()

set(EMBED_LUA_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(embed_lua target name)
  set(pieces "")
  foreach(piece IN LISTS ARGN)
    list(APPEND pieces ${PROJECT_SOURCE_DIR}/lua/${piece})
  endforeach()
  set(output ${PROJECT_BINARY_DIR}/generated/lua_${name}.c)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} "-DPIECES=${pieces}" -D OUTPUT=${output} -P ${EMBED_LUA_SCRIPT}
    DEPENDS ${pieces} ${EMBED_LUA_SCRIPT}
    COMMENT "Embedding lua_${name}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

embed_lua(kova_core decide prelude.lua token_bucket.lua leased_bucket.lua quota.lua shares.lua gcra.lua sliding_window.lua
  sliding_counter.lua calendar.lua concurrency.lua turns.lua hold.lua breaker.lua adaptive.lua shared_bucket.lua
  decide.lua)
embed_lua(kova_core heartbeat heartbeat.lua)
embed_lua(kova_core regions regions.lua)
embed_lua(kova_core probe probe.lua)
embed_lua(kova_core pool pool_prelude.lua pool_health.lua pool_target.lua pool_account.lua pool_choice.lua
  pool_session.lua pool_ticket.lua pool_load.lua pool_next.lua pool_report.lua pool.lua)
