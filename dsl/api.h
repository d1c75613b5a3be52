/* Marks the public API: the shared library exports what is declared between KILN_API_BEGIN and KILN_API_END,
 * and nothing else. Each public header has the two marks around its declarations, after its includes.
 * tests/integration/exported_names.txt lists the names that the library exports.
 */
#ifndef KILN_DSL_API_H
#define KILN_DSL_API_H

#define KILN_API_BEGIN _Pragma("GCC visibility push(default)")
#define KILN_API_END _Pragma("GCC visibility pop")

/* Marks an explicit instantiation of a public function template: g++ does not take this from the template. */
#define KILN_API_INSTANCE __attribute__((visibility("default")))

/* Marks nested classes whose members are not exported. What else a public header declares for Kiln's own use
 * stands outside of the marks above.
 */
#define KILN_INTERNAL __attribute__((visibility("hidden")))

#endif
