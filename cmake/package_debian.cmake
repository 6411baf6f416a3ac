# Run by cpack on the staged tree: what Debian wants otherwise than `cmake --install` does it.
set(tree ${CPACK_TEMPORARY_DIRECTORY})
set(documents ${tree}/usr/share/doc/kova)

function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# What the file says is only true of one release: when its version was made.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog.Debian "kova (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * What is new is in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(RENAME ${documents}/CHANGELOG.md ${documents}/changelog)
compress(${documents}/changelog ${documents}/changelog.Debian)
file(REMOVE ${documents}/LICENSE) # in /usr/share/common-licenses, as copyright says
configure_file(${CPACK_KOVA_DEBIAN}/copyright ${documents}/copyright COPYONLY)
configure_file(${CPACK_KOVA_DEBIAN}/README.Debian ${documents}/README.Debian COPYONLY)

file(GLOB pages ${tree}/usr/share/man/man*/*)
compress(${pages})

file(MAKE_DIRECTORY ${tree}/usr/share/zsh)
file(RENAME ${tree}/usr/share/zsh/site-functions ${tree}/usr/share/zsh/vendor-completions)

file(MAKE_DIRECTORY ${tree}/etc/kova)
configure_file(${CPACK_KOVA_DEBIAN}/agent.json ${tree}/etc/kova/agent.json COPYONLY)
