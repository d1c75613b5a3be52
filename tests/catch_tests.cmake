# Lists the test cases of a Catch2 program (PROGRAM) as ctest tests named "PREFIX: test case" in OUT; those with a tag of the
# list SLOW have the label `slow`, the others, and those of [threads], `quick`.
set(script "")
cmake_path(GET OUT PARENT_PATH folder) # tests leave the user's kernel cache alone
# Not those that [.] hides, which fail or mean nothing when run like others: tests and scripts here start them in processes
# of their own (to kill them, with another driver or environment, beside a debugger), and a person those that measure.
set(not_hidden "~[.]")
# Slow ones are left out of the quick suite alone; `ctest -L slow` runs them, and so does `ctest` without a label.
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
    # Characters that mean something in a Catch2 test specification.
    string(REGEX REPLACE "([],[*\"~\\])" "\\\\\\1" spec_name "${name}")
    string(APPEND script "add_test([==[${PREFIX}: ${name}]==] [==[${PROGRAM}]==] [==[${spec_name}]==])\n")
    # cuda_tests make a folder for each run themselves: what they count must not depend on the runs before.
    set(environment "ENVIRONMENT [==[KILN_CACHE_DIR=${folder}/cache]==]")
    if(PREFIX STREQUAL "cuda_tests")
      set(environment "")
    endif()
    string(APPEND script "set_tests_properties([==[${PREFIX}: ${name}]==] PROPERTIES LABELS ${label} TIMEOUT 600 ${environment})\n")
  endforeach()
endforeach()
file(WRITE ${OUT} "${script}")
