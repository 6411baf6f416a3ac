# What the binaries carry: files become C at build time.
#
# embed_lua(<target> <name> <piece.lua>...)
#   Joins the pieces into one script and adds it to <target> as `const struct lua_script lua_<name>` (core/lua_script.h).
#   Redis hashes the bytes that it receives, so they are hashed here and embedded unchanged: the agent sends EVALSHA first
#   and the body only on NOSCRIPT.
#
# embed_site(<target> <name> <index.html> <file>...)
#   Adds the pages to <target> as `const struct web_site site_<name>` (io/web_site.h), each as it is and compressed.
#   `@ASSETS@` in the index becomes the directory of all other files, which is called by the hash of all of them: so they
#   may be kept for ever.
#
# The same file is run as a script by the build: cmake -D KIND=lua|site -D NAME=... -D PIECES=a;b -D OUTPUT=... -P embed.cmake

# The bytes of `file` as C writes them, with a zero behind.
function(bytes_of file result)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n\t" bytes "${bytes}")
  set(${result} "{\n\t${bytes}0}" PARENT_SCOPE)
endfunction()

function(write_lua)
  set(hex "")
  set(joined "")
  foreach(piece IN LISTS PIECES)
    file(READ ${piece} bytes HEX)
    string(APPEND hex "${bytes}")
    file(READ ${piece} text)
    string(APPEND joined "${text}")
  endforeach()
  # A hash needs the bytes in a file: CMake's strings can't hold every byte, but a script is text.
  file(WRITE ${OUTPUT}.lua "${joined}")
  file(READ ${OUTPUT}.lua written HEX)
  if(NOT written STREQUAL hex)
    message(FATAL_ERROR "lua_${NAME}: the joined script is not its pieces: a byte that CMake can't copy")
  endif()
  file(SHA1 ${OUTPUT}.lua sha1)
  bytes_of(${OUTPUT}.lua bytes)
  file(WRITE ${OUTPUT}
    "/* Made of ${NAME}'s pieces in lua/ by cmake/embed.cmake. */\n"
    "#include \"core/lua_script.h\"\n\n"
    "static const unsigned char body[] = ${bytes};\n\n"
    "const struct lua_script lua_${NAME} = {\"${NAME}\", (const char *)body, sizeof body - 1, \"${sha1}\"};\n")
endfunction()

function(media_type_of file result)
  set(html "text/html; charset=utf-8")
  set(css "text/css; charset=utf-8")
  set(js "text/javascript; charset=utf-8")
  set(svg image/svg+xml)
  string(REGEX MATCH "[a-z]+$" extension ${file})
  if(NOT DEFINED ${extension})
    message(FATAL_ERROR "${file}: no media type is known for it")
  endif()
  set(${result} "${${extension}}" PARENT_SCOPE)
endfunction()

function(write_site)
  list(POP_FRONT PIECES index)
  set(hashes "")
  foreach(file IN LISTS PIECES)
    file(SHA256 ${file} hash)
    string(APPEND hashes "${hash}")
  endforeach()
  string(SHA256 version "${hashes}")
  string(SUBSTRING ${version} 0 16 version)
  set(ASSETS assets/${version})
  get_filename_component(index_name ${index} NAME)
  configure_file(${index} ${OUTPUT}.d/${index_name} @ONLY)
  set(arrays "")
  set(rows "")
  set(i 0)
  list(PREPEND PIECES ${OUTPUT}.d/${index_name})
  foreach(file IN LISTS PIECES)
    get_filename_component(name ${file} NAME)
    execute_process(COMMAND ${GZIP} -9nc ${file} OUTPUT_FILE ${OUTPUT}.d/${name}.gz COMMAND_ERROR_IS_FATAL ANY)
    bytes_of(${file} plain)
    bytes_of(${OUTPUT}.d/${name}.gz packed)
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    media_type_of(${file} type)
    string(APPEND arrays "static const unsigned char plain_${i}[] = ${plain};\nstatic const unsigned char gzip_${i}[] = ${packed};\n\n")
    string(APPEND rows "\t{\"${name}\", \"${type}\", \"${hash}\", {(const char *)plain_${i}, sizeof plain_${i} - 1},\n"
      "\t {(const char *)gzip_${i}, sizeof gzip_${i} - 1}},\n")
    math(EXPR i "${i} + 1")
  endforeach()
  file(WRITE ${OUTPUT}
    "/* Made of files in dashboard/ by cmake/embed.cmake. */\n"
    "#include \"io/web_site.h\"\n\n"
    "${arrays}static const struct web_file files[] = {\n${rows}};\n\n"
    "const struct web_site site_${NAME} = {\"${version}\", files, sizeof files / sizeof files[0]};\n")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_language(CALL write_${KIND})
  return()
endif()

set(EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(embed target kind name directory)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${directory}/ OUTPUT_VARIABLE pieces)
  set(output ${PROJECT_BINARY_DIR}/generated/${kind}_${name}.c)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D KIND=${kind} -D NAME=${name} "-DPIECES=${pieces}" -D OUTPUT=${output} -D GZIP=${GZIP_PROGRAM}
      -P ${EMBED_SCRIPT}
    DEPENDS ${pieces} ${EMBED_SCRIPT}
    COMMENT "Embedding ${kind}_${name}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

function(embed_lua target name)
  embed(${target} lua ${name} lua ${ARGN})
endfunction()

function(embed_site target name)
  find_program(GZIP_PROGRAM gzip REQUIRED)
  embed(${target} site ${name} dashboard ${ARGN})
endfunction()
