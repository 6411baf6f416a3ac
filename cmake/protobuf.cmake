# kova_proto: proto/**.proto compiled by protobuf-c at build time. Included as <kova_usage.pb-c.h>, <grpc/health/v1/health.pb-c.h>.
# What gRPC's server reflection tells, the descriptors of the files in directories, is `proto_descriptors` (proto_descriptors.h).
#
# The same file is run as a script by the build: cmake -D SET=... -D OUTPUT=... -P protobuf.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${SET} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR len "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n\t" bytes "${bytes}")
  file(WRITE ${OUTPUT}
    "/* A FileDescriptorSet, made of proto/ by cmake/protobuf.cmake. */\n"
    "#include \"proto_descriptors.h\"\n\n"
    "const unsigned char proto_descriptors[] = {\n\t${bytes}};\n"
    "const size_t proto_descriptors_len = ${len};\n")
  return()
endif()

pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c>=1.4)
# Newer versions of protobuf-c are a plugin of protoc; the one program that is both goes without protoc.
find_program(KOVA_PROTOC_C NAMES protoc-c protoc REQUIRED DOC "protobuf-c's compiler (package protobuf-c-compiler)")

file(GLOB_RECURSE protos CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/proto ${PROJECT_SOURCE_DIR}/proto/*.proto)
set(directory ${PROJECT_BINARY_DIR}/generated/proto)
file(MAKE_DIRECTORY ${directory})
set(sources)
set(headers)
set(described)
foreach(proto IN LISTS protos)
  string(REGEX REPLACE "\\.proto$" "" stem ${proto})
  add_custom_command(
    OUTPUT ${directory}/${stem}.pb-c.c ${directory}/${stem}.pb-c.h
    COMMAND ${KOVA_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/proto --c_out=${directory} ${proto}
    DEPENDS ${PROJECT_SOURCE_DIR}/proto/${proto}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/proto
    VERBATIM)
  list(APPEND sources ${directory}/${stem}.pb-c.c)
  list(APPEND headers ${directory}/${stem}.pb-c.h)
  if(proto MATCHES "/")
    list(APPEND described ${proto})
  endif()
endforeach()

set(described_files ${described})
list(TRANSFORM described_files PREPEND ${PROJECT_SOURCE_DIR}/proto/)
add_custom_command(
  OUTPUT ${directory}/proto_descriptors.c
  COMMAND ${KOVA_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/proto --descriptor_set_out=${directory}/descriptors ${described}
  COMMAND ${CMAKE_COMMAND} -D SET=${directory}/descriptors -D OUTPUT=${directory}/proto_descriptors.c -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${described_files} ${CMAKE_CURRENT_LIST_FILE}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/proto
  VERBATIM)
file(CONFIGURE OUTPUT ${directory}/proto_descriptors.h CONTENT
"/* The descriptors of the gRPC services' files, a FileDescriptorSet. */
#pragma once

#include <stddef.h>

extern const unsigned char proto_descriptors[];
extern const size_t proto_descriptors_len;
")

add_library(kova_proto STATIC ${sources} ${directory}/proto_descriptors.c)
target_include_directories(kova_proto SYSTEM PUBLIC ${directory})
target_link_libraries(kova_proto PUBLIC PkgConfig::PROTOBUF_C)
target_compile_options(kova_proto PRIVATE -w) # generated
