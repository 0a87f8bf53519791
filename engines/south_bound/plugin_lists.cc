// The lists that only plugins see: members that nixl_descriptors.h declares, for the classes of
// backend_aux.h.
#include "backend/backend_aux.h"
#include "wire/desc_list_impl.h"

template class nixlDescList<nixlMetaDesc>;
template class nixlDescList<nixlRemoteMetaDesc>;
