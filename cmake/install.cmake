# What `cmake --install` lays down beside the programs.
file(GLOB man1 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
file(GLOB man8 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.8)
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${man1} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${man8} DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES README.md ARCHITECTURE.md CHANGELOG.md LICENSE ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES deploy/demo.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY deploy/nginx deploy/haproxy DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# A unit names its program by its whole path: the one of this installation.
foreach(daemon kova-agent kova-coordinator)
  file(READ ${PROJECT_SOURCE_DIR}/deploy/systemd/${daemon}.service unit)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deploy/systemd/${daemon}.service)
  string(REPLACE "/usr/bin/${daemon}" "${CMAKE_INSTALL_FULL_BINDIR}/${daemon}" unit "${unit}")
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/generated/${daemon}.service CONTENT "${unit}")
  install(FILES ${PROJECT_BINARY_DIR}/generated/${daemon}.service DESTINATION lib/systemd/system)
endforeach()

# Where each shell looks for completions by itself.
install(FILES kovactl/completion/kovactl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kovactl)
install(FILES kovactl/completion/_kovactl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES kovactl/completion/kovactl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
