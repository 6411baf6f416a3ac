# The Debian package: `scripts/package`, or `cpack -G DEB` in a build directory. One package has all three programs: they share
# their libraries and documentation, and a unit that isn't configured does nothing.
set(KOVA_PACKAGE_CONTACT "Kova maintainers <kova@packages.invalid>" CACHE STRING "who answers for the package: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kova)
set(CPACK_PACKAGE_CONTACT "${KOVA_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed rate limiter and pool coordinator")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A small agent beside your workers says whether a caller may spend so much
of a quota now, and if not, when. All agents of a region share their limits
exactly, through Redis. Any Redis client can ask it, and so can HTTP and gRPC.
.
The package has kova-agent, which begins at once on loopback with a Redis of
its own, kova-coordinator, which adds up the usage of several regions and
begins when it is configured, and kovactl, the operator's tool.")
set(CPACK_PACKAGE_INSTALL_DIRECTORY kova)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_debian.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS
  "init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers | systemd-sysusers, tzdata")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "redis-server, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "")
foreach(file conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/debian/${file})
endforeach()
set(CPACK_KOVA_DEBIAN ${PROJECT_SOURCE_DIR}/deploy/debian) # for the script
include(CPack)
