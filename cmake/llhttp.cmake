# The HTTP/1.1 parser: target `kova_llhttp`. The distribution's library where there is one (libllhttp-dev: Debian 13
# and later, Ubuntu), else the generated C sources that node-llhttp ships (Debian 12), compiled as they are.
if(TARGET kova_llhttp)
	return()
endif()

find_path(KOVA_LLHTTP_LIBRARY_INCLUDE llhttp.h)
find_library(KOVA_LLHTTP_LIBRARY llhttp)
find_path(KOVA_LLHTTP_SOURCE_DIR llhttp.c
	  PATHS /usr/share/llhttp NO_DEFAULT_PATH
	  DOC "Directory with llhttp's generated api.c, http.c and llhttp.c")
find_path(KOVA_LLHTTP_SOURCE_INCLUDE llhttp.h
	  PATHS /usr/share/include/llhttp /usr/include/llhttp ${KOVA_LLHTTP_SOURCE_DIR} NO_DEFAULT_PATH)

if(KOVA_LLHTTP_LIBRARY AND KOVA_LLHTTP_LIBRARY_INCLUDE)
	add_library(kova_llhttp INTERFACE)
	target_include_directories(kova_llhttp SYSTEM INTERFACE ${KOVA_LLHTTP_LIBRARY_INCLUDE})
	target_link_libraries(kova_llhttp INTERFACE ${KOVA_LLHTTP_LIBRARY})
	message(STATUS "llhttp: ${KOVA_LLHTTP_LIBRARY}")
elseif(KOVA_LLHTTP_SOURCE_DIR AND KOVA_LLHTTP_SOURCE_INCLUDE)
	add_library(kova_llhttp STATIC
		    ${KOVA_LLHTTP_SOURCE_DIR}/api.c
		    ${KOVA_LLHTTP_SOURCE_DIR}/http.c
		    ${KOVA_LLHTTP_SOURCE_DIR}/llhttp.c)
	target_include_directories(kova_llhttp SYSTEM PUBLIC ${KOVA_LLHTTP_SOURCE_INCLUDE})
	# Version 8 is strict only when told; 9 always is.
	target_compile_definitions(kova_llhttp PRIVATE LLHTTP_STRICT_MODE=1)
	target_compile_options(kova_llhttp PRIVATE -w) # not our code
	message(STATUS "llhttp: the sources in ${KOVA_LLHTTP_SOURCE_DIR}")
else()
	message(FATAL_ERROR "llhttp was not found: install libllhttp-dev (Debian 13, Ubuntu) or node-llhttp (Debian 12)")
endif()
