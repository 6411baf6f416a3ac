# What `cmake --install` lays down beside the programs.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE) # whatever the umask
foreach(section 1 5 8)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES README.md ARCHITECTURE.md CHANGELOG.md LICENSE ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/migrate/*.md)
install(FILES ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR}/migrate)
install(FILES deploy/demo.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY deploy/nginx deploy/haproxy deploy/envoy DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# A unit names its program by its whole path: the one of this installation, which is known when it is made.
foreach(daemon kova-agent kova-coordinator)
  install(CODE "
    file(READ \"${PROJECT_SOURCE_DIR}/deploy/systemd/${daemon}.service\" unit)
    string(REPLACE \"/usr/bin/${daemon}\" \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${daemon}\" unit \"\${unit}\")
    file(WRITE \"${PROJECT_BINARY_DIR}/generated/${daemon}.service\" \"\${unit}\")")
  install(FILES ${PROJECT_BINARY_DIR}/generated/${daemon}.service DESTINATION lib/systemd/system)
endforeach()
install(FILES deploy/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME kova.conf)

# Where each shell looks for completions by itself.
install(FILES kovactl/completion/kovactl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kovactl)
install(FILES kovactl/completion/_kovactl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES kovactl/completion/kovactl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
