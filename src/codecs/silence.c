// Keeps libpng and libjpeg from writing to the standard error. Leptonica creates their readers with
// the default error handlers, which print, and offers no way to set others. The dynamic linker
// looks for a symbol in this module before it looks in the libraries that the module needs: the two
// functions below take the place of the libraries' own, call these and set silent handlers. Where
// the host program has loaded one of the libraries for all to see, that one's handlers stay.
#include <dlfcn.h>
#include <stdio.h>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
#include <png.h>

#define EXPORT __attribute__((visibility("default")))

// ---- libpng ----

static void fail_silently(png_structp png, png_const_charp message) {
  (void)message;
  png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message) { (void)png, (void)message; }

EXPORT png_structp png_create_read_struct(png_const_charp version, png_voidp user,
                                          png_error_ptr on_error, png_error_ptr on_warning) {
  return png_create_read_struct_2(version, user, on_error ? on_error : fail_silently,
                                  on_warning ? on_warning : ignore, NULL, NULL, NULL);
}

// ---- libjpeg ----

static void print_nothing(j_common_ptr jpeg) { (void)jpeg; }

EXPORT struct jpeg_error_mgr* jpeg_std_error(struct jpeg_error_mgr* errors) {
  typedef struct jpeg_error_mgr* function(struct jpeg_error_mgr*);
  function* libjpegs = NULL;
  *(void**)&libjpegs = dlsym(RTLD_NEXT, "jpeg_std_error");
  if (!libjpegs) return NULL;  // never: Leptonica needs libjpeg
  libjpegs(errors)->output_message = print_nothing;
  return errors;
}
