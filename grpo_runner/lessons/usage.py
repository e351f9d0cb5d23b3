"""What `explain --help` prints."""

USAGE = """\
explain                               the papers' worked numbers on one screen
explain methods                       every method as a coefficient of grad log pi, and what runs it here
explain family                        what each method gives the tokens of the same four answers
        [RUN_FOLDER --step N]         of a question of a run's step instead, the first
        [--question ID]               this question
        [--html FILE]                 as a page too: answers as rows, tokens as coloured cells
explain length                        why 1/|o| lengthens wrong answers: a policy that can only stop or go on
        [--right 0.3] [--group 8]     chance of a right answer; answers in a group
        [--stop 0.15] [--body 6]      chance to stop at each token of the tail; tokens in front of it
        [--wrong-body 12]             of wrong answers, where that is another number; left out: as --body
explain RUN_FOLDER --step N           what each answer and token of a step got, on the screen and as a page
        [--question ID]               only this question
        [--all]                       all on the screen; left out: the one of the largest weight
        [--html FILE]                 the page goes there; left out: RUN_FOLDER/explain/
explain --rewards 1,0,0,0,0           your own group: what each answer gets; none: an excluded answer
        [--lengths 120,80,300,64,90]  tokens of each answer, EOS included; left out: 1 each
        [--advantage NAME]            {advantages};
                                      left out: the first three
        [--loss-norm NAME]            {norms};
                                      left out: the method's own
        [--budget L]                  the constant of the loss norm `constant`; left out: the longest answer
        [--ddof 0|1]                  the group's std divides by G - ddof; left out: 0
        [--beta B] [--ref-ratio R]    the KL term, and pi_ref/pi (one number, or one for each answer)
        [--ratio R] [--clip LOW,HIGH] pi/pi_old (likewise), and the clip range; left out: 0.2"""
