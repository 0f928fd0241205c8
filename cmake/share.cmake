# Installs man pages and shell completions in the folder `share` of the environment, and makes the same tree in the build
# folder. tools/man_pages.py generates share/man from the options. The completion scripts contain the names in
# `busbw_programs`.
set(share_tree ${PROJECT_BINARY_DIR}/share)
list(TRANSFORM busbw_collectives APPEND _perf OUTPUT_VARIABLE busbw_program_list)
list(APPEND busbw_program_list comm_ops_perf)
list(JOIN busbw_program_list " " busbw_programs)

# bash and fish load the file that has the name of the command.
foreach(program IN LISTS busbw_program_list ITEMS busbw)
  configure_file(share/completion/busbw.bash.in ${share_tree}/bash-completion/completions/${program} @ONLY)
  configure_file(share/completion/busbw.fish.in ${share_tree}/fish/vendor_completions.d/${program}.fish @ONLY)
endforeach()
configure_file(share/completion/_busbw.in ${share_tree}/zsh/site-functions/_busbw @ONLY)

file(GLOB man_pages CONFIGURE_DEPENDS share/man/*.1)
foreach(page IN LISTS man_pages)
  cmake_path(GET page FILENAME name)
  configure_file(${page} ${share_tree}/man/man1/${name} COPYONLY)
endforeach()
foreach(program IN LISTS busbw_program_list)
  file(WRITE ${share_tree}/man/man1/${program}.1 ".so man1/busbw-engine.1\n")
endforeach()

if(SKBUILD)
  set(share_dir ${SKBUILD_DATA_DIR}/share)
else()
  set(share_dir ${CMAKE_INSTALL_DATADIR})
endif()
install(DIRECTORY ${share_tree}/ DESTINATION ${share_dir})
