// Builds fmt 8.1 to 12 as a library from its headers: instantiates the templates that the headers only declare.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);

#if FMT_VERSION < 110000
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);
#elif FMT_VERSION < 110100
template void vformat_to(buffer<char>&, string_view, format_args, locale_ref);
#endif
#if FMT_VERSION < 90000
template auto format_float(double, int, float_specs, buffer<char>&) -> int;
template auto format_float(long double, int, float_specs, buffer<char>&) -> int;
template auto snprintf_float(double, int, float_specs, buffer<char>&) -> int;
template auto snprintf_float(long double, int, float_specs, buffer<char>&) -> int;
#endif

}  // namespace detail
FMT_END_NAMESPACE
