"""The results of checking a checkpoint against a lock.

text      for people; a lock
words     the same words for every form
github    workflow commands of GitHub Actions
junit     JUnit XML
markdown  a comment on a pull request
"""
