# Writes OUT, which adds each test case of a Catch2 program (PROGRAM) to ctest under the name "PREFIX: test case". Test cases
# that have a tag of the list SLOW get the label `slow`; all others, and those that have the tag [threads], get `quick`.
set(script "")
cmake_path(GET OUT PARENT_PATH folder) # tests do not use the user's kernel cache
# Test cases with a hidden tag ([.]) are excluded, because they fail or prove nothing when they run like the others. Other
# tests and scripts start them in a separate process (to kill it, to give it another driver or environment, or to debug it).
# Tests that measure speed are started by hand.
set(not_hidden "~[.]")
# `ctest -LE slow`, the quick suite, excludes slow tests. `ctest -L slow` runs only them, `ctest` without a label all tests.
set(quick ${not_hidden})
set(slow "")
foreach(tag ${SLOW})
  string(APPEND quick "~[${tag}]")
  list(APPEND slow "[${tag}]${not_hidden}~[threads]")
endforeach()
string(APPEND quick ",[threads]${not_hidden}")
list(JOIN slow "," slow)
foreach(label quick slow)
  # Catch2 returns the number of tests it lists.
  execute_process(COMMAND ${PROGRAM} ${${label}} --list-test-names-only OUTPUT_VARIABLE names ERROR_VARIABLE errors RESULT_VARIABLE count)
  if(NOT count MATCHES "^[0-9]+$" OR (count GREATER 0 AND names STREQUAL ""))
    message(FATAL_ERROR "${PROGRAM} cannot list its tests: ${count}\n${errors}")
  endif()
  string(REPLACE ";" "\\;" names "${names}")
  string(REPLACE "\n" ";" names "${names}")
  foreach(name ${names})
    # Escapes the characters that have a meaning in a Catch2 test specification.
    string(REGEX REPLACE "([],[*\"~\\])" "\\\\\\1" spec_name "${name}")
    string(APPEND script "add_test([==[${PREFIX}: ${name}]==] [==[${PROGRAM}]==] [==[${spec_name}]==])\n")
    # cuda_tests make a new cache folder in each run themselves: the numbers that they check must not depend on earlier runs.
    set(environment "ENVIRONMENT [==[KILN_CACHE_DIR=${folder}/cache]==]")
    if(PREFIX STREQUAL "cuda_tests")
      set(environment "")
    endif()
    string(APPEND script "set_tests_properties([==[${PREFIX}: ${name}]==] PROPERTIES LABELS ${label} TIMEOUT 600 ${environment})\n")
  endforeach()
endforeach()
file(WRITE ${OUT} "${script}")
