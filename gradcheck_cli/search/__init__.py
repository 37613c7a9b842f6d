"""Search: every input of a domain where a gradient breaks, or a proof that there is none.

`searching` is a generator that yields questions for engines and is sent their answers. It takes a
spec, and gives a `domain.search.Search` for each kind of failure. Its parts, from the bottom:

box         the domain as ordinals of the dtype
batching    a program for many points at once
budget      the time it may take
probes      points where formulas break
goals       the numbers on the way whose zeros and overflows are looked for, and points beside them
truths      what is right at one point, enclosed, and which kinds fail there
runs        points on the engine, many at once or alone
enclosed    numbers over boxes: an exact range, and a bound d |v| + a of the error
rules       that of each row of arithmetic; function_rules and special_rules have functions,
            array_rules has what chooses, moves and adds up
facts       what the rules of single rows forget
enclosing   a program over many boxes; faithful: which kernels round as they are restated
proof       branch and bound over boxes of ordinals
regions     where a kind fails: intervals over one number, boxes over several; reasons: why;
            together: all kinds in one call
roundest    witnesses of few digits
fixes       rewrites that are searched over the same domain
codes       the findings of a run that are failures of each kind
layers      layers, run by their own code
answering   a search in the worker of its engine
"""
