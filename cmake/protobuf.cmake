# kova_proto: proto/*.proto compiled by protobuf-c at build time. Included as <kova_usage.pb-c.h>.
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c>=1.4)
# Newer versions of protobuf-c are a plugin of protoc; the one program that is both goes without protoc.
find_program(KOVA_PROTOC_C NAMES protoc-c protoc REQUIRED DOC "protobuf-c's compiler (package protobuf-c-compiler)")

file(GLOB protos CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/proto/*.proto)
set(directory ${PROJECT_BINARY_DIR}/generated/proto)
file(MAKE_DIRECTORY ${directory})
set(sources)
set(headers)
foreach(proto IN LISTS protos)
  cmake_path(GET proto STEM stem)
  add_custom_command(
    OUTPUT ${directory}/${stem}.pb-c.c ${directory}/${stem}.pb-c.h
    COMMAND ${KOVA_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/proto --c_out=${directory} ${proto}
    DEPENDS ${proto}
    VERBATIM)
  list(APPEND sources ${directory}/${stem}.pb-c.c)
  list(APPEND headers ${directory}/${stem}.pb-c.h)
endforeach()

add_library(kova_proto STATIC ${sources})
target_include_directories(kova_proto SYSTEM PUBLIC ${directory})
target_link_libraries(kova_proto PUBLIC PkgConfig::PROTOBUF_C)
target_compile_options(kova_proto PRIVATE -w) # generated
