if(NIXL_SANITIZE STREQUAL "address")
  # Programs may pass any integer where the interface has an enumeration; the library looks before it trusts.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=enum -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NIXL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NIXL_SANITIZE)
  message(FATAL_ERROR "NIXL_SANITIZE is '${NIXL_SANITIZE}'; known are address and thread")
endif()
