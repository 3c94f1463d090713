// The text is XLA's syntax: what its parser reads and its readers know.
#include "hlo/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/toy_modules.h"

namespace gemmatrace::hlo {
namespace {

using ::testing::HasSubstr;
using enum ElementType;

TEST(Text, ASmallProgramInFull) {
    Builder builder("small", 2);
    const Value x = builder.parameter("x.must_alias_input", Shape(f32, {2, 3}));
    const Value sum = builder.named(builder.all_reduce(builder.add(x, builder.splat_like(x, 0.1)), Opcode::add), "sum");
    EXPECT_EQ(module_text(builder.finish({{"x", sum, x}})),
              R"(HloModule small, input_output_alias={ {0}: (0, {}, must-alias) }

%add_f32 (add_f32.lhs: f32[], add_f32.rhs: f32[]) -> f32[] {
  %add_f32.lhs = f32[] parameter(0)
  %add_f32.rhs = f32[] parameter(1)
  ROOT %add_f32.result = f32[] add(%add_f32.lhs, %add_f32.rhs)
}

ENTRY %main (x.must_alias_input: f32[2,3]) -> (f32[2,3]) {
  %x.must_alias_input = f32[2,3]{1,0} parameter(0), frontend_attributes={neff_input_names="x.must_alias_input"}
  %constant.1 = f32[] constant(0.1)
  %broadcast.2 = f32[2,3]{1,0} broadcast(%constant.1), dimensions={}
  %add.3 = f32[2,3]{1,0} add(%x.must_alias_input, %broadcast.2)
  %sum = f32[2,3]{1,0} all-reduce(%add.3), replica_groups={{0,1}}, to_apply=%add_f32
  ROOT %tuple.5 = (f32[2,3]{1,0}) tuple(%sum), frontend_attributes={neff_output_names="x"}
}
)");
}

TEST(Text, AttributesAreWrittenAsXlaWritesThem) {
    const std::string text = module_text(testing::movement_module(2)) + module_text(testing::decode_step({}));
    for (const char* fragment :
         {"transpose(%f32_x), dimensions={2,0,1}", "slice={[1:4:2], [0:3], [2:8:3]}", "dynamic_slice_sizes={2,3,5}",
          "offset_dims={2,3}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,3,8}",
          "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={1,2}, rhs_contracting_dims={3}",
          "direction=LT", "iota_dimension=0", "constant(-1e+30)"}) {
        EXPECT_THAT(text, HasSubstr(fragment));
    }
}

}  // namespace
}  // namespace gemmatrace::hlo
