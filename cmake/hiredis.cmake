# kova_hiredis: hiredis >= 1.1 with TLS.
#
# The distribution's where pkg-config finds it (Debian 13, Ubuntu 24.04). Debian 12 has 0.14, which swallows
# errors in asynchronous use: there the C sources inside the Python package `hiredis` are fetched with pip, checked
# against the SHA-256 below, and compiled here. They are kept in KOVA_DOWNLOAD_CACHE, so configuring again is
# quick and needs no network. -DHIREDIS_SOURCE_DIR=… names a directory with hiredis' sources instead.

set(HIREDIS_SOURCE_DIR "" CACHE PATH "hiredis sources (>= 1.1) to compile instead of the distribution's")

set(_hiredis_package hiredis)
set(_hiredis_version 3.2.1) # of the Python package; the C library in it is 1.3.0
set(_hiredis_sha256 5a5f64479bf04dd829fe7029fad0ea043eac4023abc6e946668cbbec3493a78d)

if(NOT KOVA_DOWNLOAD_CACHE)
	if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
		set(_cache "$ENV{XDG_CACHE_HOME}/kova")
	else()
		set(_cache "${CMAKE_BINARY_DIR}/_cache")
	endif()
	set(KOVA_DOWNLOAD_CACHE "${_cache}" CACHE PATH "where fetched sources are kept")
endif()

# Leaves the archive at `path`, whole and checked, or stops with what to do.
function(_hiredis_fetch path)
	if(EXISTS "${path}")
		file(SHA256 "${path}" sum)
		if(sum STREQUAL _hiredis_sha256)
			return()
		endif()
		file(REMOVE "${path}")
	endif()

	find_program(KOVA_PYTHON3 python3 REQUIRED)
	get_filename_component(cache "${path}" DIRECTORY)
	set(work "${CMAKE_BINARY_DIR}/_deps/hiredis-download")
	file(REMOVE_RECURSE "${work}")
	file(MAKE_DIRECTORY "${cache}" "${work}")
	file(WRITE "${work}/requirements.txt"
	     "${_hiredis_package}==${_hiredis_version} --hash=sha256:${_hiredis_sha256}\n")
	message(STATUS "hiredis: fetching the sources of ${_hiredis_package} ${_hiredis_version}")
	execute_process(
		COMMAND ${KOVA_PYTHON3} -m pip download --quiet --no-deps --no-binary :all: --require-hashes
			--disable-pip-version-check --dest "${work}" --requirement "${work}/requirements.txt"
		RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_VARIABLE output)
	file(GLOB got "${work}/*.tar.gz")
	if(NOT result EQUAL 0 OR NOT got)
		message(FATAL_ERROR
			"No hiredis >= 1.1 is installed, and its sources can't be fetched:\n${output}\n"
			"Install libhiredis-dev >= 1.1, or python3-pip, or set HIREDIS_SOURCE_DIR.")
	endif()
	file(SHA256 "${got}" sum)
	if(NOT sum STREQUAL _hiredis_sha256)
		message(FATAL_ERROR "hiredis: ${got} has SHA-256 ${sum}, not ${_hiredis_sha256}")
	endif()
	file(RENAME "${got}" "${path}")
	file(REMOVE_RECURSE "${work}")
endfunction()

# Sets `ret_dir` to a directory with hiredis.c and the rest.
function(_hiredis_sources ret_dir)
	if(HIREDIS_SOURCE_DIR)
		if(NOT EXISTS "${HIREDIS_SOURCE_DIR}/async.c")
			message(FATAL_ERROR "HIREDIS_SOURCE_DIR=${HIREDIS_SOURCE_DIR} has no async.c")
		endif()
		set(${ret_dir} "${HIREDIS_SOURCE_DIR}" PARENT_SCOPE)
		return()
	endif()
	set(unpacked "${CMAKE_BINARY_DIR}/_deps/hiredis-${_hiredis_version}")
	set(dir "${unpacked}/${_hiredis_package}-${_hiredis_version}/vendor/hiredis")
	if(NOT EXISTS "${dir}/async.c")
		set(archive "${KOVA_DOWNLOAD_CACHE}/${_hiredis_package}-${_hiredis_version}.tar.gz")
		_hiredis_fetch("${archive}")
		file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${unpacked}")
	endif()
	set(${ret_dir} "${dir}" PARENT_SCOPE)
endfunction()

function(_hiredis_compile)
	_hiredis_sources(dir)
	# Our includes say <hiredis/async.h>, whatever the directory is called.
	set(include "${CMAKE_BINARY_DIR}/_deps/include")
	file(MAKE_DIRECTORY "${include}")
	file(REMOVE "${include}/hiredis")
	file(CREATE_LINK "${dir}" "${include}/hiredis" SYMBOLIC)

	# async.c includes dict.c.
	set(sources alloc.c async.c hiredis.c net.c read.c sds.c sockcompat.c ssl.c)
	list(TRANSFORM sources PREPEND "${dir}/")
	add_library(kova_hiredis STATIC ${sources})
	target_compile_options(kova_hiredis PRIVATE -w)
	target_include_directories(kova_hiredis SYSTEM INTERFACE "${include}")
	target_link_libraries(kova_hiredis PUBLIC OpenSSL::SSL OpenSSL::Crypto)
	set_target_properties(kova_hiredis PROPERTIES C_CLANG_TIDY "" POSITION_INDEPENDENT_CODE ON)
endfunction()

find_package(OpenSSL 3.0 REQUIRED)
find_package(PkgConfig REQUIRED)
if(NOT HIREDIS_SOURCE_DIR)
	pkg_check_modules(HIREDIS QUIET IMPORTED_TARGET hiredis>=1.1 hiredis_ssl>=1.1)
endif()
if(NOT HIREDIS_SOURCE_DIR AND HIREDIS_FOUND)
	message(STATUS "hiredis: the system's ${HIREDIS_hiredis_VERSION}")
	add_library(kova_hiredis INTERFACE)
	target_link_libraries(kova_hiredis INTERFACE PkgConfig::HIREDIS OpenSSL::SSL OpenSSL::Crypto)
else()
	_hiredis_compile()
endif()
