"""Search: find the inputs of a domain where a gradient breaks, or prove that there are none.

`searching` is a generator that yields questions for engines and is sent their answers. It takes a
spec and returns a `domain.search.Search` for each kind of failure. The modules, from the bottom:

box         the domain as ordinals of the dtype
budget      the time that a search may take
probes      points where formulas break
goals       intermediate numbers whose zeros and overflows are searched for, and points beside them
kinds       the kinds of failure, with their codes
estimates   answers at many points: an engine's, and an estimate of the right ones
truths      the enclosed truth at one point, and the kinds that fail there
runs        points on the engine, many at once or alone
enclosures  a program over many boxes: exact ranges, and bounds d |v| + a on errors
slopes      what slopes over boxes say; bends: second derivatives over boxes
proof       branch and bound over boxes of ordinals
regions     where a kind fails: intervals over one number, boxes over several; reasons: why;
            together: all kinds in one call
roundest    witnesses with few digits
layers      layers, run by their own code
answering   a search in the worker of its engine, with rewrites that may be fixes
"""
